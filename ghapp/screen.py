"""The terminal while `ghapp up` runs: the fleet by state, the sweeps and their cost, and what happened."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
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
from ghapp.up import Sandbox

INCIDENT_AFTER_SECONDS = 15.0
INCIDENT_RUNNERS = 12
INCIDENT_POOL = "linux-4vcpu"
EVENTS_SHOWN = 8


def show(settings: Settings, sandbox: Sandbox | None, revive: Callable[[], None]) -> None:
    """Draw twice a second until interrupted; in the sandbox, let an incident happen."""
    asyncio.run(_show(settings, sandbox, revive))


async def _show(settings: Settings, sandbox: Sandbox | None, revive: Callable[[], None]) -> None:
    redis = connect(settings.redis_url or "")
    began, lost = time.time(), 0
    curl = await _curl(settings, redis) if sandbox is not None else ""
    with Live(console=Console(), refresh_per_second=2) as live:
        while True:
            revive()
            fleets = [await _fleet(settings, redis, each) for each in await Installations(redis).all()]
            seen = any(runners for runners, _ in fleets)
            if sandbox is not None and not lost and seen and time.time() - began > INCIDENT_AFTER_SECONDS:
                lost = len(await asyncio.to_thread(sandbox.lose, "acme", INCIDENT_POOL, INCIDENT_RUNNERS))
            live.update(Group(*(panel for _, panel in fleets), _footer(lost, curl)))
            await asyncio.sleep(0.5)


async def _fleet(settings: Settings, redis: Any, installation: Installation) -> tuple[int, Panel]:
    now, org = time.time(), installation.org
    limits, rules = settings.of(org).evidence, settings.pools_of(org)
    survey = await Runners(redis).survey(installation.id)
    pools: dict[str, Counter[State]] = {}
    for evidence in (await Runners(redis).all(installation.id)).values():
        pool = pool_of(evidence.labels, evidence.custom_labels, rules)
        pools.setdefault(pool, Counter())[judge(evidence, survey, now, limits).state] += 1
    fuses = await Fuses(redis).all(installation.id)
    table = Table(box=None, header_style="bold")
    table.add_column("pool")
    for state in State:
        table.add_column(state.value, justify="right", style=COLOURS[state.value])
    table.add_column("fuse")
    for pool, counts in sorted(pools.items()):
        cells = [str(counts[state] or "") for state in State]
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
    lines = []
    for _, row in rows:
        event = msgspec.json.decode(row)
        said = event["data"].get("reason", "")
        lines.append(Text(f"{event['time']}  {event['type']}  {event['subject']}  {said}"))
    return lines or [Text(f"{timestamp(time.time())}  nothing has happened yet", "dim")]


async def _curl(settings: Settings, redis: Any) -> str:
    """A line to paste: the health endpoint, with a token that ends with the sandbox."""
    secret, _ = await Tokens(redis).create("sandbox", ("acme",), ("read",), time.time())
    host, port = settings.listen
    return f"curl -H 'Authorization: Bearer {secret}' 'http://{host}:{port}/v1/orgs/acme/runners?limit=1'"


def _footer(lost: int, curl: str) -> Group:
    incident = f"Incident: {lost} registrations vanished in {INCIDENT_POOL}. " if lost else ""
    line = Text(f"{incident}Ctrl-C ends everything.", "bold" if lost else "dim")
    return Group(line, Text(curl, no_wrap=True, overflow="fold")) if curl else Group(line)
