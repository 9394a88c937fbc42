"""The HTML of /setup."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from typing import Any

from ghapp.web.pages.layout import page

STEPS = ("Step 1 of 2", "Step 2 of 2", "All done")


def begin(manifest: Mapping[str, Any], github: str, refused: str = "") -> str:
    """Returns the form that creates the App.

    Args:
        manifest: the App's manifest; posted to GitHub with the form.
        github: GitHub's web URL.
        refused: the invalid name of an organization that was entered; empty if none was.
    """
    permissions = "".join(
        f"<tr><td>{escape(name.replace('_', ' ').capitalize())}</td><td>{escape(level)}</td></tr>"
        for name, level in manifest["default_permissions"].items()
    )
    host = github.partition("://")[2]
    complaint = f"This is not a valid organization name; enter the part after {host}/ in its URL."
    wrong = f'<p class="warn" role="alert">{escape(complaint)}</p>' if refused else ""
    body = (
        "<p>ghapp works as a GitHub App of your own. GitHub shows you the permissions, creates the App, and sends you "
        "back here; the App's key and secrets are then stored on this machine, and never shown.</p>"
        f"{'' if manifest['hook_attributes']['active'] else _no_deliveries()}"
        f'<form method="post" action="setup">{wrong}'
        '<label for="organization">Organization whose runners to watch</label>'
        '<input id="organization" name="organization" placeholder="acme" maxlength="100" '
        f'value="{escape(refused)}" autocapitalize="off" '
        'autocomplete="off" spellcheck="false" aria-describedby="hint">'
        '<p class="soft" id="hint">You must be an owner of it. If you leave this empty, the App belongs to your own '
        "account, and can be installed on that account only.</p>"
        f'<input type="hidden" name="manifest" value="{escape(json.dumps(manifest))}">'
        f'<button class="go">Create the App on {escape(host)}</button></form>'
        f'<h2>Permissions</h2><table class="levels">{permissions}</table>'
        '<p class="soft">ghapp reads no code, and writes only runners and its own check runs.</p>'
    )
    return page("Create your GitHub App", body, beside=STEPS[0])


def _no_deliveries() -> str:
    return (
        '<div class="warn"><p><b>GitHub cannot reach this address, so it will send no webhooks.</b></p>'
        "<p>You can still create the App: sweeps find lost runners without webhooks, a little later. To get webhooks, "
        "stop ghapp, set <code>GHAPP_PUBLIC_URL=https://…</code> to its public address, and start it again; or enter "
        "the address in the App's settings later.</p></div>"
    )


def done(install_url: str | None) -> str:
    """Returns the page for an App that exists, with a link to install it."""
    if install_url is None:
        body = (
            "<p>This ghapp got its App's credentials when it was started. There is nothing to set up.</p>"
            '<p class="soft">To watch another organization, install the App there, from its page on GitHub.</p>'
        )
        return page("ghapp has its App", body)
    body = (
        "<p>The App's key and secrets are stored, and ghapp is running: workers and clock start by themselves.</p>"
        "<p>The App sees nothing until it is installed. GitHub asks you where to install it.</p>"
        f'<a class="go" href="{escape(install_url)}">Install the App</a>'
        '<p class="soft">All repositories or a selection: for an organization\'s runners it makes no difference. '
        "For the check run, include the repository where it is to be posted.</p>"
    )
    return page("The App is created", body, beside=STEPS[1])


def installed(action: str) -> str:
    """Returns the page after the installation; `action` is GitHub's `setup_action`."""
    if action == "request":
        body = (
            "<p>An owner of the organization was asked to approve the App. After the approval ghapp starts by "
            "itself; there is nothing more to do here.</p>"
        )
        return page("Waiting for an owner's approval", body, beside=STEPS[1])
    body = (
        "<p>You can close this page. From now on, without further action:</p><ol>"
        "<li>In a moment, ghapp lists the organization's runners for the first time.</li>"
        "<li>It lists them again and again, within a share of the App's hourly limit.</li>"
        "<li>A runner whose registration is missing is checked twice more before anything is done.</li>"
        "<li>It is then replaced, in pools that are configured for it; in other pools it is only reported.</li></ol>"
        "<p>See them in the terminal in which ghapp runs, by <code>ghapp runners</code>, or through the "
        '<a href="../docs">HTTP API</a>.</p>'
    )
    return page("ghapp is installed", body, beside=STEPS[2])


def key_needed(*, wrong: bool) -> str:
    """Returns the page for browsers on other machines."""
    complaint = '<p class="warn" role="alert">This key is wrong.</p>' if wrong else ""
    body = (
        "<p>From another machine, or through a proxy, the set-up needs the key that <code>ghapp up</code> printed in "
        f"its terminal.</p>{complaint}"
        '<form method="get" action="setup"><label for="key">Key</label>'
        '<input id="key" name="key" required autocomplete="off" spellcheck="false">'
        '<button class="go">Continue</button></form>'
    )
    return page("This ghapp is not set up yet", body)


def failed(title: str, detail: str, *, again: bool = False) -> str:
    """Returns the page for an error, with a link to repeat the request (`again`) or to start again."""
    way = '<a class="go" href="">Try again</a>' if again else '<a class="go" href="../setup">Start again</a>'
    return page(title, f"<p>{escape(detail)}</p>{way}")
