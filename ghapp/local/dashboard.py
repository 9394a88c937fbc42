"""The terminal of `ghapp up`: the fleet by state, the sweeps and their cost, and the latest events."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Any

import msgspec
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from ghapp.errors import StoreUnavailableError
from ghapp.health.demand import demand
from ghapp.health.installation import Installation
from ghapp.health.queue.explanation import duration
from ghapp.health.queue.job_queue import JobQueue
from ghapp.health.remediation.fuse import fuse_of
from ghapp.health.runner.verdict import State
from ghapp.local.up import Site
from ghapp.log import redact
from ghapp.report.documents import is_healed, timestamp
from ghapp.settings import Settings
from ghapp.store.connect import connect
from ghapp.store.fuses import WHOLE_ORG
from ghapp.store.org_views import load_org_view
from ghapp.store.stores import Stores, open_stores, stores_over
from ghapp.terminal.tables import COLOURS, ShrinkingTable

INCIDENT_AFTER_SECONDS = 15.0
DEATH_AFTER_SECONDS = 5.0
DEATH_POOL = "linux-8vcpu"
INCIDENT_RUNNERS = 12
INCIDENT_POOL = "linux-4vcpu"
MISSPELT_LABEL = "linux-4vpcu"
"""Requested by one job of the sandbox, so that no runner can take it."""

EVENTS_SHOWN = 8
EVENTS_READ = 200
STAYS_SECONDS = 20.0
"""How long the last event of each kind stays visible, however many others follow: there may be dozens per frame."""

HEALED = "healed"
"""Lost, and the replacement was accepted."""

POOL_WIDTH = 24
DROPPED_FIRST = ("offline", "unknown", "retired", "starting", "invalidated", "suspect", HEALED)
"""Columns that are dropped on narrow terminals if no runner is in them, in this order."""

COLUMNS = (*(state.value for state in State), HEALED)
KIND_COLOURS = {"replace": "magenta", "recovered": "green", "reset": "green", "offline": "yellow", "fuse": "red"}


def show(site: Site) -> None:
    """Draws twice a second until interrupted. First waits for the set-up; in the sandbox, starts an incident."""
    asyncio.run(_show(site))


async def _show(site: Site) -> None:
    console = Console()
    if site.setup_key is not None:
        await _set_up(site, site.setup_key, console)
    console.print(page_line(site.settings), soft_wrap=True)
    if site.sandbox is not None:
        # Printed once, above the frames: lines to be copied must not be redrawn or broken.
        console.print(await _hints(site), soft_wrap=True)
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        async for frame in frames(site):
            live.update(frame, refresh=True)


async def frames(site: Site) -> AsyncIterator[Group]:
    """Yields a frame each half second, forever, and supervises the processes."""
    settings, sandbox = site.settings, site.sandbox
    stores = stores_over(connect(settings.redis_url or ""))
    began, lost, waiting, died = time.time(), 0, list[int](), 0
    panels: list[Panel] = []
    while True:
        site.supervise()
        try:
            fleets = [await _fleet(settings, stores, each) for each in await stores.installations.all()]
        except StoreUnavailableError as error:  # it may be restarting, or slow; the roles wait for it, too
            yield Group(*panels, _redis_error(error), _footer(lost, settings))
            await asyncio.sleep(0.5)
            continue
        seen = any(runners for runners, _ in fleets)
        if sandbox is not None and seen and not waiting:
            waiting = await asyncio.to_thread(sandbox.queue, "acme", MISSPELT_LABEL)
        if sandbox is not None and not died and seen and time.time() - began > DEATH_AFTER_SECONDS:
            died = await asyncio.to_thread(sandbox.stop_runner, "acme", DEATH_POOL)
        if sandbox is not None and not lost and seen and time.time() - began > INCIDENT_AFTER_SECONDS:
            lost = len(await asyncio.to_thread(sandbox.lose, "acme", INCIDENT_POOL, INCIDENT_RUNNERS))
        panels = [panel for _, panel in fleets] or [_not_installed(settings)]
        yield Group(*panels, _footer(lost, settings, waiting, died))
        await asyncio.sleep(0.5)


def _redis_error(error: StoreUnavailableError) -> Text:
    why = redact(str(error.__cause__ or error)).rstrip(".")
    return Text(f"Redis does not answer, retrying; the data above is from before. ({why})", "bold red")


async def _set_up(site: Site, key: str, console: Console) -> None:
    """Prints the set-up's URL, in lines that can be copied, and returns when the App exists."""
    console.print(invitation(site.settings, key), soft_wrap=True)
    while site.settings.credentials is None:
        site.supervise()
        await asyncio.sleep(0.2)
    console.print(Text("The App is created; its credentials are stored. Workers and clock start.", "bold green"))


def page_line(settings: Settings) -> Text:
    """Returns the address of the page for a browser on this machine, which needs no sign-in."""
    return Text.assemble(("\nThe page: ", "bold"), (f"{_here(settings)}/", "bold cyan"), "\n")


def invitation(settings: Settings, key: str) -> Text:
    """Returns the URL of /setup for a browser on this machine, and for one elsewhere."""
    address = _here(settings)
    return Text.assemble(
        ("\nThere is no GitHub App yet. To create it, open\n\n", "bold"),
        (f"    {address}/setup\n\n", "bold cyan"),
        "From another machine, or through a proxy, with the key:\n\n",
        f"    {settings.public_url or address}/setup?key={key}\n\n",
        ("Everything else starts by itself after that. Ctrl-C stops everything.\n", "dim"),
    )


def _here(settings: Settings) -> str:
    """Returns the URL of the web role on this machine."""
    host, port = settings.listen
    here = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - looked up, not bound
    return f"http://{f'[{here}]' if ':' in here else here}:{port}"


def _not_installed(settings: Settings) -> Panel:
    """Returns a panel with the URL to install the App."""
    where = settings.credentials.install_url if settings.credentials is not None else None
    text = Text("The App is not installed on any organization yet; ghapp checks again regularly.")
    return Panel(Group(text, Text(f"Install it: {where}", "bold", overflow="fold")) if where else text, title="ghapp")


async def _fleet(settings: Settings, stores: Stores, installation: Installation) -> tuple[int, Panel]:
    now, org = time.time(), installation.org
    view = await load_org_view(stores, installation, settings)
    survey = view.survey
    pools: dict[str, Counter[str]] = {}
    runners = (await stores.runners.all(installation.id)).values()
    for evidence in runners:
        pool, verdict = view.pool(evidence), view.verdict(evidence, now)
        state = HEALED if is_healed(evidence, verdict) else verdict.state.value
        pools.setdefault(pool, Counter())[state] += 1
    jobs = jobs_line(view.job_queue(runners, await stores.demand.all(installation.id), now))
    table = Table(box=None, header_style="bold")
    table.add_column("pool", max_width=POOL_WIDTH, no_wrap=True, overflow="ellipsis")
    for state in COLUMNS:
        table.add_column(state, justify="right", style=COLOURS[state])
    table.add_column("fuse")
    for pool, counts in sorted(pools.items()):
        cells = [str(counts[state] or "") for state in COLUMNS]
        paused = ", paused" if view.is_paused(pool) else ""
        table.add_row(pool, *cells, f"{fuse_of(view.fuses, pool).position}{paused}")
    cost = Text(await _cost(stores, org), "dim")
    survey = view.survey
    if survey.failing_since is not None:
        since = timestamp(survey.failing_since)[11:19]
        cost = Text(
            f"no complete list since {since}: {survey.failure}; no runner counts as lost because of that", "bold yellow"
        )
    events = await _events(stores, installation.id)
    empty = [state for state in DROPPED_FIRST if not any(counts[state] for counts in pools.values())]
    body = Group(ShrinkingTable(table, empty), Text(), jobs, cost, Text(), *events)
    return survey.total, Panel(body, title=f"{org}: {survey.total} runners registered")


def jobs_line(queue: JobQueue) -> Text:
    """Returns the numbers of jobs, and the oldest job that no online runner can take."""
    pools, unserved = demand(queue)
    ages = [queue.now - each.oldest_queued_at for each in pools if each.oldest_queued_at is not None]
    oldest = f", the oldest for {duration(max(ages))}" if ages else ""
    counts = f"jobs {sum(each.running for each in pools)} running, {sum(each.queued for each in pools)} queued{oldest}"
    line = Text(counts, "dim")
    if unserved:
        first, more = unserved[0], f" and {len(unserved) - 1} more" if len(unserved) > 1 else ""
        line.append(f"; no online runner can take job {first.job.id} ({first.reason}){more}", "yellow")
    return line


async def _cost(stores: Stores, org: str) -> str:
    counted = await stores.counters.all()
    sweeps = sum(
        value for name, value in counted.items() if name.startswith("ghapp_sweeps_total") and f'"{org}"' in name
    )
    calls = counted.get(f'ghapp_sweep_calls_total{{org="{org}"}}', 0)
    billable = counted.get(f'ghapp_sweep_billable_calls_total{{org="{org}"}}', 0)
    seconds = counted.get(f'ghapp_sweep_seconds_total{{org="{org}"}}', 0)
    mean = 1000 * seconds / sweeps if sweeps else 0
    return f"sweeps {sweeps:.0f}, calls {calls:.0f}, billable {billable:.0f}, {mean:.0f} ms per sweep"


async def _events(stores: Stores, installation: int) -> list[Text]:
    rows = await stores.events.latest(installation, EVENTS_READ)
    events = [msgspec.json.decode(row) for _, row in rows]
    return [_line(each) for each in worth_a_line(events, time.time())] or [Text("no events yet", "dim")]


def worth_a_line(events: Sequence[dict[str, Any]], now: float) -> list[dict[str, Any]]:
    """Returns the CloudEvents to show, oldest first: recent last events of each kind, and the latest others."""
    lasts = {event["type"]: number for number, event in enumerate(events)}
    stay = [each for each in lasts.values() if now - _time_of(events[each]) < STAYS_SECONDS]
    others = [each for each in range(len(events)) if each not in stay]
    shown = (sorted(stay, reverse=True) + others[::-1])[:EVENTS_SHOWN]
    return [events[each] for each in sorted(shown)]


def _time_of(event: dict[str, Any]) -> float:
    return datetime.fromisoformat(event["time"]).timestamp()


def _line(event: dict[str, Any]) -> Text:
    kind = event["type"].removeprefix("ghapp.").removesuffix(".v1")
    colour = next((colour for word, colour in KIND_COLOURS.items() if word in kind), "")
    when, reason = event["time"][11:19], event["data"].get("reason", "")
    subject = "whole installation" if event["subject"] == WHOLE_ORG else event["subject"]
    return Text.assemble((f"{when}  ", "dim"), (f"{kind:<16}", colour), f"  {subject}  ", (reason, "dim"))


async def _hints(site: Site) -> Text:
    """Returns commands to try while the sandbox runs; their token ends with it."""
    async with open_stores(site.settings.redis_url or "") as stores:
        secret, _ = await stores.tokens.create("sandbox", ("acme",), ("read",), time.time())
    address, environment = _here(site.settings), f". {site.settings.state_dir}/env &&"
    lines = {
        "request": f"curl -H 'Authorization: Bearer {secret}' '{address}/v1/orgs/acme/runners?limit=1'",
        "API    ": f"{address}/docs",
        "checks ": f"{site.settings.web_url}/acme/.github/runs",
        "fleet  ": f"{environment} ghapp runners --state invalidated",
        "queue  ": f"{environment} ghapp jobs --unserved",
        "gate   ": f"{environment} ghapp gate acme rollout pink",
    }
    intro = "A simulated GitHub with 300 runners is running. Try in another terminal, or in a browser:"
    hints = [Text.assemble((f"{name}  ", "dim"), line) for name, line in lines.items()]
    return Text("\n").join([Text(intro, "bold"), *hints, Text()])


def _footer(lost: int, settings: Settings, waiting: Sequence[int] = (), died: int = 0) -> Text:
    incident = f"Incident: {lost} registrations were deleted in {INCIDENT_POOL}.\n" if lost else ""
    incident += f"A job with a misspelt label waits: ghapp why acme {waiting[0]}\n" if waiting else ""
    incident += (
        f"The runner of job {died} was stopped; its job is run again in two minutes: ghapp deaths --org acme\n"
        if died
        else ""
    )
    return Text.assemble((incident, "bold"), (f"Ctrl-C stops everything. Log: {settings.state_dir}/ghapp.log", "dim"))
