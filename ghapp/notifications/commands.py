"""`ghapp notify`: tries the receivers of notifications."""

from __future__ import annotations

import sys

import click

from ghapp.cli.context import run, settings_here
from ghapp.errors import ConfigurationError, NotificationError
from ghapp.exit_codes import FAILED
from ghapp.notifier import Notifier
from ghapp.settings import Settings

TITLE = "ghapp: test"
BODY = "This is a test. Notifications of ghapp will arrive here."


@click.command()
def notify() -> None:
    """Send a test message to each address in GHAPP_NOTIFY_URLS.

    Addresses are Apprise's, such as slack://TOKENS/#channel or mailto://USER:PASSWORD@HOST, separated by commas.

    Example: ghapp notify
    """
    results = run(send_test(settings_here()))
    for receiver, problem in results:
        click.echo(f"{receiver}: {problem or 'accepted'}")
    if any(problem for _, problem in results):
        sys.exit(FAILED)


async def send_test(settings: Settings) -> list[tuple[str, str]]:
    """Sends the message to each receiver; returns its scheme, and what failed or an empty text."""
    if not settings.notify_urls:
        raise ConfigurationError("GHAPP_NOTIFY_URLS: not set; it takes Apprise addresses, separated by commas")
    notifier, results = Notifier(settings.notify_urls), []
    for receiver in notifier.receivers:
        problem = ""
        try:
            await notifier.send(receiver, TITLE, BODY, "info")
        except NotificationError as error:
            problem = str(error).removeprefix(f"{notifier.name(receiver)} ")
        results.append((notifier.name(receiver), problem))
    return results
