"""`ghapp token`: API tokens for controllers."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from typing import Any

import click

from ghapp.cli.context import chosen, opened, run, settings_here, show
from ghapp.errors import GhappError


@click.group()
def token() -> None:
    """Manage API tokens for controllers.

    Example: ghapp token create --org acme --scope read --name arc-controller
    """


@token.command("create")
@click.option("--org", "orgs", multiple=True, required=True, help="Organization that it may access; may be repeated.")
@click.option("--scope", "scopes", multiple=True, required=True, type=click.Choice(["read", "claim", "admin"]))
@click.option("--name", default="", help="Name of the controller that uses it.")
@click.option("--expires-days", type=click.IntRange(min=1), help="Lifetime in days (default: no expiry).")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def create_token(
    orgs: tuple[str, ...], scopes: tuple[Any, ...], name: str, expires_days: int | None, *, as_json: bool
) -> None:
    """Create a token and print it, once. The App must be installed on each organization.

    Example: ghapp token create --org acme --scope read --name arc-controller
    """
    from ghapp.report.documents import timestamp

    settings, now = settings_here(), time.time()
    expires_at = now + expires_days * 86400 if expires_days else None

    async def create() -> Any:
        async with opened(settings) as stores:
            for org in orgs:  # a mistyped name would give access to no org, or to another org that takes it later
                await chosen(stores.installations, org)
            return await stores.tokens.create(name, orgs, scopes, now, expires_at)

    secret, created = run(create())
    if not as_json:
        click.echo(secret)
        return
    shown = {"id": created.id, "token": secret, "name": name, "orgs": orgs, "scopes": scopes}
    click.echo(json.dumps({**shown, "expires_at": None if expires_at is None else timestamp(expires_at)}))


def _document(token: Any) -> dict[str, Any]:
    """Returns a token's JSON document, without its secret and with RFC 3339 times."""
    from ghapp.report.documents import timestamp

    expires_at = None if token.expires_at is None else timestamp(token.expires_at)
    return {**asdict(token), "created_at": timestamp(token.created_at), "expires_at": expires_at}


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

    async def revoke() -> bool:
        async with opened(settings) as stores:
            return await stores.tokens.revoke(token_id)

    if not run(revoke()):
        raise GhappError(f"{token_id}: no such token; see `ghapp token list`")
    click.echo(f"revoked: {token_id}")
