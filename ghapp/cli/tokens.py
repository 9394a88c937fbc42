"""`ghapp token`: API tokens for controllers."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict
from typing import Any

import click

from ghapp.cli.completion import complete_orgs
from ghapp.cli.context import chosen, opened, run, settings_here, show
from ghapp.cli.options import HelpfulGroup, NameChoice
from ghapp.cli.record_change import change
from ghapp.errors import GhappError
from ghapp.installations.installation import Installation
from ghapp.store.stores import Stores
from ghapp.wording import time_of

MOST_DAYS = 3_650


@click.group(cls=HelpfulGroup)
def token() -> None:
    """Manage API tokens for controllers.

    Example: ghapp token create --org acme --scope read --name arc-controller
    """


@token.command("create")
@click.option(
    "--org",
    "orgs",
    multiple=True,
    required=True,
    shell_complete=complete_orgs,
    help="Organization, OWNER/REPOSITORY or enterprises/SLUG that it may access; may be repeated. An organization does "
    "not include its repositories: runners of acme/api need --org acme/api.",
)
@click.option("--scope", "scopes", multiple=True, required=True, type=NameChoice(["read", "claim", "admin"]))
@click.option("--name", default="", help="Name of the controller that uses it.")
@click.option(
    "--expires-days", type=click.IntRange(1, MOST_DAYS), default=90, show_default=True, help="Lifetime in days."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def create_token(
    orgs: tuple[str, ...], scopes: tuple[Any, ...], name: str, expires_days: int, *, as_json: bool
) -> None:
    """Create a token and print it, once. It opens what --org names, and nothing else.

    Example: ghapp token create --org acme --scope read --name arc-controller
    """
    from ghapp.report.documents import timestamp
    from ghapp.store.tokens import DAY_SECONDS, new_token

    settings = settings_here()

    async def create() -> Any:
        async with opened(settings) as stores:
            # A mistyped name would give access to no org, or to another org that takes it later.
            known = [each for org in orgs for each in await chosen(stores.installations, org)]
            lifetime = expires_days * DAY_SECONDS
            secret, token = new_token(name, orgs, scopes, await stores.now(), lifetime)
            async with _recorded(stores, known, "create token", token, f"scopes {', '.join(scopes)}"):
                await stores.tokens.put(secret, token)
            return secret, token

    secret, created = run(create())
    if not as_json:
        click.echo(secret)
        click.echo(f"ghapp: it is valid until {time_of(created.expires_at)}", err=True)  # `$(…)` takes the token alone
        return
    shown = {"id": created.id, "token": secret, "name": name, "orgs": orgs, "scopes": scopes}
    click.echo(json.dumps({**shown, "expires_at": timestamp(created.expires_at)}))


@asynccontextmanager
async def _recorded(
    stores: Stores, installations: Iterable[Installation], action: str, token: Any, result: str
) -> AsyncIterator[None]:
    """Records a change of a token in the audit log of each of its organizations."""
    async with AsyncExitStack() as stack:
        for each in installations:
            outcome = await stack.enter_async_context(change(stores, each.id, action, _called(token)))
            outcome.set(result)
        yield


def _called(token: Any) -> str:
    return f"{token.name} ({token.id})" if token.name else token.id


def _document(token: Any) -> dict[str, Any]:
    """Returns a token's JSON document, without its secret and with RFC 3339 times."""
    from ghapp.report.documents import timestamp

    return {**asdict(token), "created_at": timestamp(token.created_at), "expires_at": timestamp(token.expires_at)}


@token.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_tokens(*, as_json: bool) -> None:
    """Show all tokens, without their secrets.

    Example: ghapp token list
    """
    from ghapp.terminal.tables import tokens_table

    settings = settings_here()

    async def read() -> Any:
        async with opened(settings) as stores:
            return await stores.tokens.all()

    tokens = run(read())
    if as_json:
        click.echo(json.dumps([_document(each) for each in tokens]))
        return
    show(tokens_table(tokens, time.time()))


@token.command("revoke")
@click.argument("token_id")
def revoke_token(token_id: str) -> None:
    """Revoke a token; it is rejected from now on.

    Example: ghapp token revoke 1f2e3d4c
    """
    settings = settings_here()

    async def revoke() -> Any:
        async with opened(settings) as stores:
            token = next((each for each in await stores.tokens.all() if each.id == token_id), None)
            if token is None:
                return None
            known = [each for org in token.orgs if (each := await stores.installations.of(org)) is not None]
            async with _recorded(stores, known, "revoke token", token, "revoked"):
                return await stores.tokens.revoke(token_id)

    if run(revoke()) is None:
        raise GhappError(f"{token_id}: no such token; see `ghapp token list`")
    click.echo(f"revoked: {token_id}")
