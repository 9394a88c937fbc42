"""The command line: reads the environment, opens what a command needs, prints, and exits 0, 1 or 2."""

from __future__ import annotations

import asyncio
import getpass
import importlib
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from functools import partial
from typing import Any, TypeVar

import click

from ghapp import log
from ghapp.errors import ConfigurationError, GhappError, StoreUnavailableError
from ghapp.health.installation import Installation
from ghapp.settings import Settings

T = TypeVar("T")

FAILED, MISUSED = 1, 2
PIPED_WIDTH = 250


class Group(click.Group):
    """Says what is wrong in one line: 2 for configuration and usage, 1 for what failed."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, and turn our errors into one clear line."""
        from redis.exceptions import RedisError

        try:
            return super().invoke(ctx)
        except (ConfigurationError, StoreUnavailableError) as error:
            click.echo(f"ghapp: {error}", err=True)
            ctx.exit(MISUSED)
        except RedisError as error:
            click.echo(f"ghapp: Redis does not answer: {log.redact(str(error))}; check GHAPP_REDIS_URL", err=True)
            ctx.exit(MISUSED)
        except GhappError as error:
            click.echo(f"ghapp: {error}", err=True)
            ctx.exit(FAILED)


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="ghapp")
def main() -> None:
    """Watches the registrations of self-hosted GitHub Actions runners, and has the lost ones replaced."""


def _read() -> Settings:
    """What a role runs with."""
    settings = Settings.read(os.environ)
    log.configure(settings.log_format)
    return settings


def _found() -> Settings:
    """What a command runs with: where `ghapp up` keeps a Redis on this machine, that one will do."""
    settings = Settings.read(os.environ)
    log.configure(settings.log_format, quiet=True)
    socket = settings.state_dir / "redis" / "redis.sock"
    if settings.redis_url is None and socket.exists():
        return replace(settings, redis_url=f"unix://{socket}")
    return settings


@main.command()
@click.option("--sandbox", is_flag=True, help="With a simulated GitHub and a living fleet: no account is needed.")
@click.option("--port", type=click.IntRange(1, 65535), help="Of the web role; else as GHAPP_LISTEN says.")
def up(*, sandbox: bool, port: int | None) -> None:
    """Run everything on this machine, until Ctrl-C.

    Example: ghapp up --sandbox
    """
    from ghapp.screen import show
    from ghapp.up import up as run_all

    try:
        listen = {} if port is None else {"GHAPP_LISTEN": f"127.0.0.1:{port}"}
        run_all({**os.environ, **listen}, sandbox=sandbox, show=show)
    except KeyboardInterrupt:
        click.echo("ended")


@main.command()
def web() -> None:
    """Serve HTTP: the webhook, and whether we are alive and ready.

    Example: GHAPP_REDIS_URL=redis://redis:6379/0 GHAPP_LISTEN=0.0.0.0:8000 ghapp web
    """
    from ghapp.web.app import serve

    serve(_read())


@main.command()
def worker() -> None:
    """Run RQ jobs: sweeps, confirmations, remediations, events.

    Example: GHAPP_REDIS_URL=redis://redis:6379/0 ghapp worker
    """
    importlib.import_module("jobs.worker").run(_read())


@main.command()
def clock() -> None:
    """Give due sweeps to the workers. Two may run.

    Example: GHAPP_REDIS_URL=redis://redis:6379/0 ghapp clock
    """
    asyncio.run(importlib.import_module("jobs.schedule").keep_time(_read()))


@main.command()
@click.option("--org", help="Only this organization.")
@click.option("--dry-run", is_flag=True, help="Record what is seen, and do nothing about it.")
def sweep(org: str | None, *, dry_run: bool) -> None:
    """Sweep now, in this process, and print what was found and what it cost.

    Example: ghapp sweep --org acme --dry-run
    """
    settings = _found()
    accounts = _run(_sweep(settings, org, act=not dry_run))
    from ghapp.tables import sweeps_table

    _print(sweeps_table(accounts))
    if any(account.flaw for account in accounts):
        sys.exit(FAILED)


async def _sweep(settings: Settings, org: str | None, *, act: bool) -> list[Any]:
    from rich.progress import Progress

    house_module = importlib.import_module("jobs.house")
    sweep_module = importlib.import_module("jobs.sweep")
    installations_module = importlib.import_module("jobs.installations")
    accounts = []
    async with house_module.open_house(settings) as house:
        await installations_module.discover_installations(house)
        for installation in await _chosen(house.installations, org):
            with Progress(transient=True) as bar:
                pages = partial(bar.update, bar.add_task(f"{installation.org}: pages", total=None))
                account = await sweep_module.sweep_installation(
                    house, installation.id, act=act, progress=partial(_advance, pages)
                )
            if account is None:
                raise GhappError(f"{installation.org}: a sweep is under way elsewhere; try again in a moment")
            accounts.append(account)
    return accounts


def _advance(pages: Callable[..., None], done: int, of: int) -> None:
    pages(completed=done, total=of)


@main.command()
@click.option("--org", help="Only this organization.")
@click.option("--state", help="Only runners in this state.")
@click.option("--json", "as_json", is_flag=True, help="For machines.")
def runners(org: str | None, state: str | None, *, as_json: bool) -> None:
    """The fleet as known now.

    Example: ghapp runners --org acme --state suspect
    """
    from ghapp.health.verdict import State

    if state is not None and state not in {each.value for each in State}:
        raise click.BadParameter(f"{state!r} is no state; states are {', '.join(State)}", param_hint="--state")
    documents = [each for each in _run(_documents(_found(), org)) if state is None or each["state"] == state]
    if as_json:
        click.echo(json.dumps({"runners": documents, "total": len(documents)}, indent=2))
        return
    from ghapp.tables import runners_table

    _print(runners_table(documents))


@main.command()
@click.argument("org")
@click.argument("name_or_id")
@click.option("--json", "as_json", is_flag=True, help="For machines.")
def explain(org: str, name_or_id: str, *, as_json: bool) -> None:
    """One runner: its evidence in order, its state, and why.

    Example: ghapp explain acme linux-4vcpu-x7k2p
    """
    found = [
        each
        for each in _run(_documents(_found(), org))
        if each["name"] == name_or_id or str(each["runner_id"]) == name_or_id
    ]
    if not found:
        raise GhappError(f"{org} {name_or_id}: nobody has told us of such a runner; see `ghapp runners --org {org}`")
    document = max(found, key=lambda each: int(each["runner_id"]))
    if as_json:
        click.echo(json.dumps(document, indent=2))
        return
    from ghapp.tables import explanation

    _print(explanation(document))


async def _documents(settings: Settings, org: str | None) -> list[dict[str, Any]]:
    from ghapp.health.document import PoolStanding, health_document
    from ghapp.health.fuse import Fuse
    from ghapp.health.pools import pool_of
    from ghapp.health.verdict import judge
    from ghapp.store.fuses import WHOLE_ORG, Fuses
    from ghapp.store.installations import Installations
    from ghapp.store.runners import Runners

    documents = []
    now = time.time()
    async with _redis(settings) as redis:
        for installation in await _chosen(Installations(redis), org):
            rules, limits = settings.pools_of(installation.org), settings.of(installation.org).evidence
            survey = await Runners(redis).survey(installation.id)
            fuses, pauses = await Fuses(redis).all(installation.id), await Fuses(redis).pauses(installation.id)
            for evidence in (await Runners(redis).all(installation.id)).values():
                pool = pool_of(evidence.labels, evidence.custom_labels, rules)
                paused = WHOLE_ORG in pauses or pool in pauses
                standing = PoolStanding(fuses.get(pool, Fuse()).position, paused)
                verdict = judge(evidence, survey, now, limits)
                documents.append(health_document(installation.org, evidence, verdict, survey, standing, rules, now))
    return sorted(documents, key=lambda each: (each["org"], each["pool"], each["name"]))


@main.command()
@click.argument("org")
@click.option("--pool", help="Only this pool.")
@click.option("--why", required=True, help="Shown to whoever wonders.")
def pause(org: str, pool: str | None, why: str) -> None:
    """Stop remediation; looking and telling go on.

    Example: ghapp pause acme --pool linux-4vcpu --why "network maintenance"
    """
    _run(_pause(_found(), org, pool, why))
    click.echo(f"paused: {org}{'/' + pool if pool else ''}")


@main.command()
@click.argument("org")
@click.option("--pool", help="Only this pool.")
def resume(org: str, pool: str | None) -> None:
    """End pauses, and let stopped fuses prove anew.

    Without a pool the whole organization goes on: its own pause ends, and each pool's.

    Example: ghapp resume acme --pool linux-4vcpu
    """
    for line in _run(_resume(_found(), org, pool)):
        click.echo(line)


async def _pause(settings: Settings, org: str, pool: str | None, why: str) -> None:
    from ghapp.store.fuses import WHOLE_ORG, Fuses, Pause
    from ghapp.store.installations import Installations

    async with _redis(settings) as redis:
        (installation,) = await _chosen(Installations(redis), org)
        await Fuses(redis).pause(installation.id, pool or WHOLE_ORG, Pause(_user(), why, time.time()))


async def _resume(settings: Settings, org: str, pool: str | None) -> list[str]:
    """Resume, have it looked at, and say what was done for each pool."""
    from ghapp.store.connect import connect_sync
    from ghapp.store.fuses import WHOLE_ORG, Fuses
    from ghapp.store.installations import Installations
    from ghapp.work import ask_for_sweep

    async with _redis(settings) as redis:
        (installation,) = await _chosen(Installations(redis), org)
        fuses = Fuses(redis)
        limits = settings.of(installation.org).fuse
        done = await fuses.resume(installation, pool, _user(), time.time(), limits)
        org_pause = (await fuses.pauses(installation.id)).get(WHOLE_ORG)
    said = [
        f"resumed: {installation.org}{'' if name == WHOLE_ORG else '/' + name}, paused by {pause.who}: {pause.why}"
        for name, pause in done.ended.items()
    ]
    said += [f"fuse proves anew: {installation.org}/{name}" for name in done.proving]
    if org_pause is not None:
        said.append(f"still paused: {installation.org}, by {org_pause.who}: {org_pause.why}")
    if done and settings.redis_url is not None:
        with connect_sync(settings.redis_url) as desk:
            ask_for_sweep(desk, installation.id)
    return said or ["nothing was paused or stopped"]


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user need not have a name
        return f"uid {os.getuid()}"


@main.command()
@click.option("--json", "as_json", is_flag=True, help="For machines.")
def doctor(*, as_json: bool) -> None:
    """Is everything in place, and what to do where it is not.

    Example: ghapp doctor --json
    """
    from ghapp.doctor.examination import examine

    found = _run(examine(_found(), os.environ))
    well = all(each.status != "wrong" for each in found)
    if as_json:
        click.echo(json.dumps({"ok": well, "findings": [asdict(each) for each in found]}, indent=2))
    else:
        from ghapp.tables import findings_table

        _print(findings_table(found))
    if not well:
        sys.exit(FAILED)


@main.group()
def token() -> None:
    """Bearer tokens of controllers."""


@token.command("create")
@click.option("--org", "orgs", multiple=True, required=True, help="May be repeated.")
@click.option("--scope", "scopes", multiple=True, required=True, type=click.Choice(["read", "claim", "admin"]))
@click.option("--name", default="", help="Whose it is.")
@click.option("--expires-days", type=click.IntRange(min=1), help="For ever, without it.")
@click.option("--json", "as_json", is_flag=True, help="For machines.")
def create_token(
    orgs: tuple[str, ...], scopes: tuple[Any, ...], name: str, expires_days: int | None, *, as_json: bool
) -> None:
    """Make a token and print it, once.

    Example: ghapp token create --org acme --scope read --name arc-controller
    """
    from ghapp.health.document import timestamp
    from ghapp.store.tokens import Tokens

    settings, now = _found(), time.time()
    expires_at = now + expires_days * 86400 if expires_days else None

    async def create() -> Any:
        async with _redis(settings) as redis:
            return await Tokens(redis).create(name, orgs, scopes, now, expires_at)

    secret, made = _run(create())
    if not as_json:
        click.echo(secret)
        return
    shown = {"id": made.id, "token": secret, "name": name, "orgs": orgs, "scopes": scopes}
    click.echo(json.dumps({**shown, "expires_at": None if expires_at is None else timestamp(expires_at)}))


@token.command("list")
@click.option("--json", "as_json", is_flag=True, help="For machines.")
def list_tokens(*, as_json: bool) -> None:
    """Show all tokens, without their secrets.

    Example: ghapp token list
    """
    from ghapp.store.tokens import Tokens
    from ghapp.tables import tokens_table

    settings = _found()

    async def read() -> Any:
        async with _redis(settings) as redis:
            return await Tokens(redis).all()

    tokens = _run(read())
    if as_json:
        click.echo(json.dumps([asdict(each) for each in tokens]))
        return
    _print(tokens_table(tokens))


@token.command("revoke")
@click.argument("token_id")
def revoke_token(token_id: str) -> None:
    """Take a token back at once.

    Example: ghapp token revoke 1f2e3d4c
    """
    from ghapp.store.tokens import Tokens

    settings = _found()

    async def revoke() -> bool:
        async with _redis(settings) as redis:
            return await Tokens(redis).revoke(token_id)

    if not _run(revoke()):
        raise GhappError(f"{token_id}: no such token; see `ghapp token list`")
    click.echo(f"revoked: {token_id}")


@main.group()
def deliveries() -> None:
    """Deliveries that were given up after three tries."""


@deliveries.command("dead")
@click.option("--json", "as_json", is_flag=True, help="For machines.")
def dead_deliveries(*, as_json: bool) -> None:
    """Show what was given up, and why.

    Example: ghapp deliveries dead
    """
    letters = _run(_dead_letters(_found()))
    if as_json:
        click.echo(json.dumps([letter._asdict() for letter in letters]))
        return
    from ghapp.tables import letters_table

    _print(letters_table(letters))


@deliveries.command("replay")
@click.argument("guid", required=False)
@click.option("--all", "everything", is_flag=True, help="All that were given up.")
def replay_deliveries(guid: str | None, *, everything: bool) -> None:
    """Let one, or all, take effect after all: once what broke them is mended.

    Example: ghapp deliveries replay 72d3162e-cc78-11e3-81ab-4c9367dc0958
    """
    if (guid is None) is not everything:
        raise click.UsageError("give one GUID, or --all")
    replayed = _run(_replay(_found(), guid))
    if not replayed and guid is not None:
        raise GhappError(f"{guid}: not among the dead letters; see `ghapp deliveries dead`")
    click.echo(f"replayed: {replayed}")


async def _dead_letters(settings: Settings) -> list[Any]:
    from ghapp.store.inbox import Inbox

    async with _redis(settings) as redis:
        return list(await Inbox(redis).dead())


async def _replay(settings: Settings, guid: str | None) -> int:
    from ghapp.store.inbox import Inbox

    async with _redis(settings) as redis:
        inbox = Inbox(redis)
        return sum([await inbox.replay(letter) for letter in await inbox.dead() if guid in (None, letter.guid)])


async def _chosen(installations: Any, org: str | None) -> list[Installation]:
    known: list[Installation] = await installations.all()
    chosen = [each for each in known if org is None or each.org.lower() == org.lower()]
    if org is not None and not chosen:
        names = ", ".join(each.org for each in known) or "none"
        raise GhappError(f"{org}: the App is not installed there; installed are: {names}")
    return chosen


@asynccontextmanager
async def _redis(settings: Settings) -> AsyncIterator[Any]:
    from ghapp.store.connect import connect

    if settings.redis_url is None:
        raise ConfigurationError("GHAPP_REDIS_URL: not set, and no `ghapp up` runs on this machine")
    redis = connect(settings.redis_url)
    try:
        yield redis
    finally:
        await redis.aclose()


def _run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def _print(renderable: Any) -> None:
    from rich.console import Console

    console = Console()
    if not console.is_terminal:  # for grep, nothing is cut off
        console = Console(width=PIPED_WIDTH)
    console.print(renderable)
