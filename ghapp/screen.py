"""The terminal while `ghapp up` runs: the fleet by state, the sweeps and their cost, and what happened."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from ghapp.health.document import timestamp
from ghapp.health.fuse import Fuse
from ghapp.health.installation import Installation
from ghapp.health.pools import pool_of
from ghapp.health.verdict import State, judge
from ghapp.settings import Settings
from ghapp.store.connect import connect
from ghapp.store.counters import Counters
from ghapp.store.events import Events
from ghapp.store.fuses import Fuses
from ghapp.store.installations import Installations
from ghapp.store.runners import Runners
from ghapp.store.tokens import Tokens
from ghapp.tables import COLOURS
from ghapp.up import Site

INCIDENT_AFTER_SECONDS = 15.0
INCIDENT_RUNNERS = 12
INCIDENT_POOL = "linux-4vcpu"
EVENTS_SHOWN = 8
REPLACED = "replaced"
"""Lost, and no longer missed."""

COLUMNS = (*(state.value for state in State), REPLACED)
KIND_COLOURS = {"replace": "magenta", "recovered": "green", "reset": "green", "offline": "yellow", "fuse": "red"}


def show(site: Site) -> None:
    """Draw twice a second until interrupted; before that, set up; in the sandbox, let an incident happen."""
    asyncio.run(_show(site))


async def _show(site: Site) -> None:
    console = Console()
    if site.setup_key is not None:
        await _set_up(site, site.setup_key, console)
    with Live(console=console, refresh_per_second=2) as live:
        async for frame in frames(site):
            live.update(frame)


async def frames(site: Site) -> AsyncIterator[Group]:
    """What is to be seen, each half second, for ever; meanwhile what runs here is tended."""
    settings, sandbox = site.settings, site.sandbox
    redis = connect(settings.redis_url or "")
    began, lost = time.time(), 0
    hints = await _hints(site, redis) if sandbox is not None else Group()
    while True:
        site.tend()
        fleets = [await _fleet(settings, redis, each) for each in await Installations(redis).all()]
        seen = any(runners for runners, _ in fleets)
        if sandbox is not None and not lost and seen and time.time() - began > INCIDENT_AFTER_SECONDS:
            lost = len(await asyncio.to_thread(sandbox.lose, "acme", INCIDENT_POOL, INCIDENT_RUNNERS))
        panels = [panel for _, panel in fleets] or [_nowhere(settings)]
        yield Group(*panels, _footer(lost), hints)
        await asyncio.sleep(0.5)


async def _set_up(site: Site, key: str, console: Console) -> None:
    """Say where to go, in lines that can be copied and stay; return when the App is there."""
    console.print(invitation(site.settings, key), soft_wrap=True)
    while site.settings.credentials is None:
        site.tend()
        await asyncio.sleep(0.2)
    console.print(Text("The App is created; its credentials are kept. Workers and clock start.", "bold green"))


def invitation(settings: Settings, key: str) -> Text:
    """Where /setup is, for a browser here and for one elsewhere."""
    host, port = settings.listen
    here = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - a name is looked up, none is bound
    address = f"http://{f'[{here}]' if ':' in here else here}:{port}"
    return Text.assemble(
        ("\nThere is no GitHub App yet. To create it, open\n\n", "bold"),
        (f"    {address}/setup\n\n", "bold cyan"),
        "From another machine, or through a proxy, with the key:\n\n",
        f"    {settings.public_url or address}/setup?key={key}\n\n",
        ("Everything else starts by itself when that is done. Ctrl-C ends it.\n", "dim"),
    )


def _nowhere(settings: Settings) -> Panel:
    """What to do when the App is installed nowhere."""
    where = settings.credentials.install_url if settings.credentials is not None else None
    said = Text("The App is installed on no organization yet; it is looked for.")
    return Panel(Group(said, Text(f"Install it: {where}", "bold", overflow="fold")) if where else said, title="ghapp")


async def _fleet(settings: Settings, redis: Any, installation: Installation) -> tuple[int, Panel]:
    now, org = time.time(), installation.org
    limits, rules = settings.of(org).evidence, settings.pools_of(org)
    survey = await Runners(redis).survey(installation.id)
    pools: dict[str, Counter[str]] = {}
    for evidence in (await Runners(redis).all(installation.id)).values():
        pool = pool_of(evidence.labels, evidence.custom_labels, rules)
        state = judge(evidence, survey, now, limits).state.value if evidence.replaced_at is None else REPLACED
        pools.setdefault(pool, Counter())[state] += 1
    fuses = await Fuses(redis).all(installation.id)
    table = Table(box=None, header_style="bold")
    table.add_column("pool")
    for state in COLUMNS:
        table.add_column(state, justify="right", style=COLOURS[state])
    table.add_column("fuse")
    for pool, counts in sorted(pools.items()):
        cells = [str(counts[state] or "") for state in COLUMNS]
        table.add_row(pool, *cells, fuses.get(pool, Fuse()).position.value)
    cost = await _cost(redis, org)
    news = await _news(redis, installation.id)
    body = Group(table, Text(), Text(cost, "dim"), Text(), *news)
    return survey.total, Panel(body, title=f"{org}: {survey.total} runners registered")


async def _cost(redis: Any, org: str) -> str:
    counted = await Counters(redis).all()
    sweeps = sum(
        value for name, value in counted.items() if name.startswith("ghapp_sweeps_total") and f'"{org}"' in name
    )
    calls = counted.get(f'ghapp_sweep_calls_total{{org="{org}"}}', 0)
    billable = counted.get(f'ghapp_sweep_billable_calls_total{{org="{org}"}}', 0)
    seconds = counted.get(f'ghapp_sweep_seconds_total{{org="{org}"}}', 0)
    mean = 1000 * seconds / sweeps if sweeps else 0
    return f"{sweeps:.0f} sweeps, {calls:.0f} calls of them {billable:.0f} billable, {mean:.0f} ms a sweep"


async def _news(redis: Any, installation: int) -> list[Text]:
    rows = await Events(redis).latest(installation, EVENTS_SHOWN)
    return [_line(msgspec.json.decode(row)) for _, row in rows] or [
        Text(f"{timestamp(time.time())}  nothing has happened yet", "dim")
    ]


def _line(event: dict[str, Any]) -> Text:
    kind = event["type"].removeprefix("ghapp.").removesuffix(".v1")
    colour = next((colour for word, colour in KIND_COLOURS.items() if word in kind), "")
    when, reason = event["time"][11:19], event["data"].get("reason", "")
    return Text.assemble((f"{when}  ", "dim"), (f"{kind:<16}", colour), f"  {event['subject']}  ", (reason, "dim"))


async def _hints(site: Site, redis: Any) -> Group:
    """What to try while the sandbox runs; the token ends with it."""
    secret, _ = await Tokens(redis).create("sandbox", ("acme",), ("read",), time.time())
    host, port = site.settings.listen
    lines = {
        "ask it ": f"curl -H 'Authorization: Bearer {secret}' 'http://{host}:{port}/v1/orgs/acme/runners?limit=1'",
        "checks ": f"{site.settings.web_url}/acme/.github/runs",
        "gate   ": f". {site.settings.state_dir}/env && ghapp gate acme rollout pink",
        "explain": f". {site.settings.state_dir}/env && ghapp runners --state invalidated",
    }
    return Group(*(Text.assemble((f"{what}  ", "dim"), said, overflow="fold") for what, said in lines.items()))


def _footer(lost: int) -> Text:
    incident = f"Incident: {lost} registrations vanished in {INCIDENT_POOL}. " if lost else ""
    return Text(f"{incident}Ctrl-C ends everything.", "bold" if lost else "dim")
