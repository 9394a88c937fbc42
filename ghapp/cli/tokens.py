"""`ghapp token`: API tokens for controllers."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from typing import Any

import click

from ghapp.cli.audit import record
from ghapp.cli.context import chosen, opened, run, settings_here, show
from ghapp.errors import GhappError

MOST_DAYS = 3_650


@click.group()
def token() -> None:
    """Manage API tokens for controllers.

    Example: ghapp token create --org acme --scope read --name arc-controller
    """


@token.command("create")
@click.option("--org", "orgs", multiple=True, required=True, help="Organization that it may access; may be repeated.")
@click.option("--scope", "scopes", multiple=True, required=True, type=click.Choice(["read", "claim", "admin"]))
@click.option("--name", default="", help="Name of the controller that uses it.")
@click.option(
    "--expires-days", type=click.IntRange(1, MOST_DAYS), default=90, show_default=True, help="Lifetime in days."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def create_token(
    orgs: tuple[str, ...], scopes: tuple[Any, ...], name: str, expires_days: int, *, as_json: bool
) -> None:
    """Create a token and print it, once. The App must be installed on each organization.

    Example: ghapp token create --org acme --scope read --name arc-controller
    """
    from ghapp.report.documents import timestamp
    from ghapp.store.tokens import DAY_SECONDS

    settings = settings_here()

    async def create() -> Any:
        async with opened(settings) as stores:
            # A mistyped name would give access to no org, or to another org that takes it later.
            known = [each for org in orgs for each in await chosen(stores.installations, org)]
            lifetime = expires_days * DAY_SECONDS
            secret, token = await stores.tokens.create(name, orgs, scopes, await stores.now(), lifetime)
            for installation in known:
                await record(stores, installation.id, "create token", _called(token), f"scopes {', '.join(scopes)}")
            return secret, token

    secret, created = run(create())
    if not as_json:
        click.echo(secret)
        return
    shown = {"id": created.id, "token": secret, "name": name, "orgs": orgs, "scopes": scopes}
    click.echo(json.dumps({**shown, "expires_at": timestamp(created.expires_at)}))


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
            if (revoked := await stores.tokens.revoke(token_id)) is not None:
                for org in revoked.orgs:
                    if (installation := await stores.installations.of(org)) is not None:
                        await record(stores, installation.id, "revoke token", _called(revoked), "revoked")
            return revoked

    if run(revoke()) is None:
        raise GhappError(f"{token_id}: no such token; see `ghapp token list`")
    click.echo(f"revoked: {token_id}")
