"""The terminal of `ghapp up`: the fleet by state, the sweeps and their cost, and the latest events."""

from __future__ import annotations

import asyncio
import shlex
import socket
import time
import traceback
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

import msgspec
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.panel import Panel
from rich.segment import Segment
from rich.text import Text

from ghapp.deaths.cause import Cause
from ghapp.deaths.cluster_summary import ClusterSummary
from ghapp.errors import StoreUnavailableError
from ghapp.incidents.incident import LossIncident
from ghapp.incidents.texts import state_of, where_of
from ghapp.installations.installation import UNINSTALLED_DISCOVERY_SECONDS, Installation
from ghapp.installations.pool_matching import ALL_POOLS
from ghapp.leaks.documents import kept_now
from ghapp.leaks.reaper_status import DAY_SECONDS, LeakingPod, is_overdue
from ghapp.loading.views import load_fleet, reaper_terms
from ghapp.local import derived_events
from ghapp.local.browser import open_in_browser
from ghapp.local.pipeline import SandboxPipeline
from ghapp.local.pressed_keys import pressed_keys
from ghapp.local.scenarios import DEFAULT, Director, Scenario, keys_line
from ghapp.local.up import Site, http_address, local_url, log_path, reachable
from ghapp.log import redact
from ghapp.proxies import through_proxy
from ghapp.redis_errors import without_number
from ghapp.report.documents import timestamp
from ghapp.report.fleet import FleetView, by_pool
from ghapp.report.headline import Headline
from ghapp.report.headlines import headlines, title_of
from ghapp.report.metrics import SWEEP_BILLABLE_CALLS, SWEEP_CALLS, SWEEP_SECONDS, SWEEPS
from ghapp.report.notes import notes
from ghapp.report.shards import shards_of, shards_text
from ghapp.runners.verdict import State
from ghapp.settings import Settings
from ghapp.store.connect import connect
from ghapp.store.stores import Stores, open_stores, stores_over
from ghapp.terminal.tables import COLOURS, SEVERITIES, PlainTable, ShrinkingTable, action_text, plain
from ghapp.untrusted_text import visible
from ghapp.wording import clock_time, counted, duration

EVENTS_SHOWN = 8
EVENTS_READ = 200
LEAST_EVENTS = 3
"""Events that a low terminal shows as long as it shows more than the scenario that was started last."""

SLOW_START_SECONDS = 10.0
"""A web role that starts answers within one to three seconds, some more on a busy machine."""

UNLIMITED = 1_000
FRAME_SECONDS = 1.0
"""Between two frames, each of which takes some 25 ms of CPU."""

HEADLINE_SECONDS = 5.0
"""How often the headlines are judged where lines are printed."""

SHOWN_SECONDS = 600.0
"""How long an incident that is over stays visible, since it began."""

OVERDUE_SECONDS = 15.0
"""A discovery that is overdue by more than this got no answer from GitHub."""

STAYS_SECONDS = 20.0
"""How long the last event of each kind stays visible, however many others follow: there may be dozens per frame."""

HEALED = "healed"
"""Lost, and the successor is online."""

POOL_WIDTH = 24
NAME_WIDTH = 64
"""Characters of a name in a line. GitHub allows 64 in a runner's name."""

DROPPED_FIRST = ("offline", "unknown", "starting", "invalidated", "suspect", HEALED)
"""Columns that are dropped on narrow terminals if no runner is in them, in this order."""

ShowingEvents = Callable[[int], RenderableType]
"""A part of a frame, by how many events it shows at most."""

EventKey = tuple[str, str, str]
"""Type, subject and time: the reason of what goes on may change."""

COLUMNS = (*(state.value for state in State if state is not State.RETIRED), HEALED)
"""A retired runner is no member of its pool."""

KIND_COLOURS = {
    "replace": "magenta",
    "recovered": "green",
    "reset": "green",
    "offline": "yellow",
    "fuse": "red",
    **derived_events.COLOURS,
}


def show(site: Site, scenarios: Sequence[Scenario] = DEFAULT, *, browser: bool = True) -> None:
    """Draws once a second until interrupted. First waits for the set-up; in the sandbox, starts scenarios.

    With `browser`, opens the page in a browser of this desktop, if there is one.
    """
    asyncio.run(_show(site, scenarios, browser=browser))


async def _show(site: Site, scenarios: Sequence[Scenario], *, browser: bool) -> None:
    console = Console()
    printer = ProblemPrinter(console)
    began = time.monotonic()
    while not await asyncio.to_thread(site.web_answers):  # an address is printed when it works
        site.supervise()
        problems = site.problems()
        if not problems and time.monotonic() - began >= SLOW_START_SECONDS:
            problems.append(f"the web role does not answer yet, still trying; see {log_path(site.settings)}")
        printer.print_new(problems)
        await asyncio.sleep(0.1)
    if browser and console.is_terminal:
        open_in_browser(f"{local_url(site.settings)}/?key={site.page_key}", site.settings.state_dir)
    if site.settings.credentials is None:
        await _set_up(site, printer)
    page = page_line(site.settings, site.page_key)
    console.print(page, soft_wrap=True)
    if site.sandbox is not None:
        # Printed once, above the frames: lines to be copied must not be redrawn or broken.
        console.print(await _hints(site), soft_wrap=True)
    director = None if site.sandbox is None else Director(site.sandbox, scenarios, await _pipeline(site.settings))
    if not console.is_terminal or console.is_dumb_terminal:
        await _print_changes(site, director, printer)
    with (
        pressed_keys(site.terminal) as keys,
        Live(console=console, auto_refresh=False, vertical_overflow="crop") as live,
    ):
        size = console.size
        async for frame in frames(site, director, lambda: console.height):
            if console.size != size:  # the terminal has wrapped the last frame again: no new frame overwrites it
                size = console.size
                console.clear()
                console.print(page, soft_wrap=True)
            live.update(frame, refresh=True)
            _raise_if_cancelled()
            if director is not None:
                director.press(keys)


def _raise_if_cancelled() -> None:
    """Ends the task after Ctrl-C: before Python 3.12 `asyncio.wait_for` may lose a cancellation."""
    if (task := asyncio.current_task()) is not None and task.cancelling():
        raise asyncio.CancelledError


class ProblemPrinter:
    """Prints each problem in a line of its own, once while it lasts."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._known: Collection[str] = ()

    def print_new(self, problems: Collection[str]) -> None:
        """Prints those that were not among the problems of the call before."""
        for problem in problems:
            if problem not in self._known:
                self.console.print(plain(problem), soft_wrap=True)
        self._known = problems


class DrawingFailures:
    """Errors of drawing. They end nothing: each kind is logged once, and the next frame is drawn all the same."""

    def __init__(self, site: Site) -> None:
        self._site, self._known = site, set[str]()

    def line(self, error: Exception) -> Text:
        """Returns a line in place of what could not be drawn."""
        kind = type(error).__name__
        if kind not in self._known:
            self._known.add(kind)
            self._site.warn("drawing failed", kind=kind, why=redact(str(error)), where=_where(error))
        return plain(f"This part cannot be drawn ({kind}); see {log_path(self._site.settings)}", "bold red")

    def tolerated(self, part: RenderableType) -> RenderableType:
        """Returns what is drawn as this part, or as a line if it cannot be drawn."""
        return _Tolerated(part, self)


class _Tolerated:
    def __init__(self, part: RenderableType, failures: DrawingFailures) -> None:
        self._part, self._failures = part, failures

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        try:
            segments = list(console.render(self._part, options))
        except Exception as error:  # noqa: BLE001 - whatever an odd name makes rich raise
            segments = list(console.render(self._failures.line(error), options))
        yield from segments


def _where(error: Exception) -> str:
    """Returns the file and line that raised the error."""
    last = traceback.extract_tb(error.__traceback__)[-1:]
    return ", ".join(f"{Path(each.filename).name}:{each.lineno}" for each in last)


async def _print_changes(site: Site, director: Director | None, printer: ProblemPrinter) -> NoReturn:
    """Prints a line for each event, problem and new headline, forever: for systemd's journal, a pipe or a file."""
    stores = stores_over(connect(site.settings.redis_url or ""))
    failures, last_events = DrawingFailures(site), dict[int, str]()
    worst, printed = dict[int, Headline](), dict[int, set[EventKey]]()
    redis_error, began_at, judged_at = "", time.monotonic(), 0.0
    while True:
        site.supervise()
        lines, current, has_fleet = [], site.problems(), False
        try:
            installations = await stores.installations.all()
            for each in installations:
                rows = await stores.events.latest(each.id, EVENTS_READ)
                last, last_events[each.id] = last_events.get(each.id), rows[-1][0] if rows else ""
                if last is None:
                    lines.append(plain(f"the App is installed on {each.org}"))
                else:
                    lines += [_line(event) for event in _shown_events(_after(last, rows))]
            if time.monotonic() >= judged_at + HEADLINE_SECONDS:
                judged_at = time.monotonic()
                for each in installations:
                    lines += await _new_headline(site.settings, stores, each, worst)
                    lines += await _new_derived_events(stores, each.id, printed)
            if not installations:
                current.append(await _why_no_installation(stores, site.settings, began_at))
            surveys = await stores.runners.surveys([each.id for each in installations])
            has_fleet = any(each.total for each in surveys.values())
            redis_error = ""
        except StoreUnavailableError as error:
            # Its reason changes while Redis starts again: no socket, no listener, no data yet. The first one is kept.
            redis_error = redis_error or _redis_error(error, data="").plain
            current.append(redis_error)
        except Exception as error:  # noqa: BLE001 - of one odd record or event
            current.append(failures.line(error).plain)
        for line in lines:
            printer.console.print(line, soft_wrap=True)
        printer.print_new(current)
        if director is not None and has_fleet:
            await director.start_due(time.monotonic())
        _raise_if_cancelled()
        await asyncio.sleep(0.5)


async def _new_headline(
    settings: Settings, stores: Stores, installation: Installation, worst: dict[int, Headline]
) -> list[Text]:
    """Returns the headline of an organization if it is another than in `worst`, which has it then."""
    now = time.time()
    fleet = await load_fleet(stores, installation, settings, now)
    found = headlines(fleet, by_pool(fleet, now), now)[0]
    last, worst[installation.id] = worst.get(installation.id), found
    if last is not None and last.news == found.news:
        return []
    action = f": {action_text(found.command, found.link)}" if found.action else ""
    step = f" → {found.step}{action}" if found.step else ""
    line = f"{timestamp(now)[11:19]}  {installation.org}: {found.sentence}{step}"
    return [plain(line, SEVERITIES[found.severity])]


async def _new_derived_events(stores: Stores, installation: int, printed: dict[int, set[EventKey]]) -> list[Text]:
    """Returns the lines of what the terminal alone shows as events and is not in `printed`, which has it then.

    What there was at first is not news.
    """
    found = await _derived_events(stores, installation)
    events_by_key = {(each["type"], each["subject"], each["time"]): each for each in found}
    last = printed.get(installation, events_by_key.keys())
    printed[installation] = {*events_by_key}
    return [_line(event) for key, event in events_by_key.items() if key not in last]


async def _derived_events(stores: Stores, installation: int) -> list[dict[str, Any]]:
    surveys = await stores.runners.surveys([installation])
    incidents = await stores.incidents.all(installation)
    summary = await stores.cluster_summaries.of(installation)
    return derived_events.derived_events(summary, surveys[installation], incidents.values())


def _after(event_id: str, rows: Sequence[tuple[str, bytes]]) -> Sequence[tuple[str, bytes]]:
    """Returns the rows behind the event of that id; all of them if it is none of theirs."""
    ids = [each for each, _ in rows]
    return rows[ids.index(event_id) + 1 :] if event_id in ids else rows


async def frames(
    site: Site, director: Director | None = None, height: Callable[[], int] = lambda: UNLIMITED
) -> AsyncIterator[Group]:
    """Yields a frame each second, forever, supervises the processes, and starts the scenarios that are due.

    Args:
        site: the processes.
        director: of the sandbox; None without one.
        height: returns the rows of the terminal; a low one shows fewer events, then fewer scenarios.
    """
    settings, failures = site.settings, DrawingFailures(site)
    stores = stores_over(connect(settings.redis_url or ""))
    panels: list[ShowingEvents] = []
    began_at = time.monotonic()
    while True:
        site.supervise()
        try:
            fleets = [await _drawn_fleet(settings, stores, each, failures) for each in await stores.installations.all()]
            panels = [_tolerated(panel, failures) for _, panel in fleets]
            if not fleets:
                why = visible(await _why_no_installation(stores, settings, began_at))
                panels = [_always(Panel(Text(why, overflow="fold"), title="ghapp"))]
        except StoreUnavailableError as error:  # it may be restarting, or slow; the roles wait for it, too
            problems = [_redis_error(error), *_problems(site)]
            yield Group(_Frame(panels, problems, _notes(settings, director), _footer(settings, director), height()))
            await asyncio.sleep(FRAME_SECONDS)
            continue
        except Exception as error:  # noqa: BLE001 - of one odd record
            fleets, panels = [], [_always(failures.line(error))]
        if director is not None and any(runners for runners, _ in fleets):
            await director.start_due(time.monotonic())
        yield Group(_Frame(panels, _problems(site), _notes(settings, director), _footer(settings, director), height()))
        await asyncio.sleep(FRAME_SECONDS)


def _always(part: RenderableType) -> ShowingEvents:
    return lambda _: part


def _tolerated(panel: ShowingEvents, failures: DrawingFailures) -> ShowingEvents:
    return lambda most: failures.tolerated(panel(most))


class _Frame:
    """A frame that is no higher than the terminal, so that its last lines, the keys, are seen.

    A low one shows fewer events, then fewer of the scenarios, the one that was started last at the end.
    """

    def __init__(
        self, panels: Sequence[ShowingEvents], problems: Sequence[Text], notes: Sequence[Text], footer: Text, rows: int
    ) -> None:
        self._panels, self._problems, self._notes, self._footer, self._rows = panels, problems, notes, footer, rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        events, notes = EVENTS_SHOWN, len(self._notes)
        # Each step: which of both shrinks, and down to how many.
        for shrinks_events, least in ((True, LEAST_EVENTS), (False, 1), (True, 1), (False, 0)):
            while (events if shrinks_events else notes) > least and self._is_too_high(console, options, events, notes):
                events, notes = (events - 1, notes) if shrinks_events else (events, notes - 1)
        if self._is_too_high(console, options, events, notes):
            yield from self._cut(console, options.update(height=None))
        else:
            yield self._with(events, notes)

    def _cut(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yields the first lines of the lowest frame, and its footer: a frame that is too high would lose the keys."""
        footer = console.render_lines(self._footer, options, pad=False)
        lines = console.render_lines(self._with(1, 0, Text("…", "dim")), options, pad=False)
        for line in [*lines[: max(0, self._rows - len(footer) - 1)], lines[-1], *footer]:
            yield from line
            yield Segment.line()

    def _is_too_high(self, console: Console, options: ConsoleOptions, events: int, notes: int) -> bool:
        unlimited = options.update(height=None)
        return len(console.render_lines(self._with(events, notes), unlimited, pad=False)) > self._rows

    def _with(self, events: int, notes: int, footer: Text | None = None) -> Group:
        shown = self._notes[len(self._notes) - notes :]
        panels = (panel(events) for panel in self._panels)
        return Group(*panels, *self._problems, *shown, self._footer if footer is None else footer)


class _RenderedOnce:
    """A part that is rendered once for each width: a low terminal renders a frame several times, with fewer events."""

    def __init__(self, part: RenderableType) -> None:
        self._part = part
        self._segments = dict[int, list[Segment]]()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        if width not in self._segments:
            self._segments[width] = [*console.render(self._part, options)]
        yield from self._segments[width]


def _redis_error(error: StoreUnavailableError, data: str = "; the data above is from before") -> Text:
    why = redact(without_number(str(error.__cause__ or error))).rstrip(".")
    return plain(f"Redis does not answer, retrying{data}. ({why})", "bold red")


async def _set_up(site: Site, printer: ProblemPrinter) -> None:
    """Prints the set-up's URL, in lines that can be copied, and returns when the App exists."""
    printer.console.print(invitation(site.settings, site.page_key), soft_wrap=True)
    while site.settings.credentials is None:
        site.supervise()
        printer.print_new(site.problems())
        await asyncio.sleep(0.2)
    printer.console.print(
        Text("The App is created; its credentials are stored. Workers and clock start.", "bold green")
    )


def page_line(settings: Settings, key: str) -> Text:
    """Returns the address of the page with the key, which makes signing in needless."""
    return Text.assemble(
        ("\nThe page: ", "bold"),
        (f"{local_url(settings)}/?key={key}", "bold cyan"),
        _elsewhere(settings, f"/?key={key}"),
        "\n",
    )


def invitation(settings: Settings, key: str) -> Text:
    """Returns the URL of /setup with the key."""
    return Text.assemble(
        ("\nThere is no GitHub App yet. To create it, open\n\n", "bold"),
        (f"    {local_url(settings)}/setup?key={key}\n", "bold cyan"),
        _elsewhere(settings, f"/setup?key={key}"),
        ("\nEverything else starts by itself after that. Ctrl-C stops everything.\n", "dim"),
    )


def _elsewhere(settings: Settings, path: str) -> str:
    """Returns a line with the URL of a path of the web role for other machines; empty if there is none."""
    host, port = settings.listen
    address = settings.public_url or http_address(socket.gethostname() if reachable(host) != host else host, port)
    return "" if address == local_url(settings) else f"\nFrom another machine: {address}{path}\n"


async def _why_no_installation(stores: Stores, settings: Settings, drawn_since: float) -> str:
    """Returns why no organization is known, and when GitHub is asked again; `drawn_since` is monotonic."""
    due = await stores.schedule.next_discovery()
    if due is None and time.monotonic() < drawn_since + OVERDUE_SECONDS:
        return "GitHub is being asked on which organizations the App is installed"
    if due is None or due < time.time() - OVERDUE_SECONDS:
        return (
            "GitHub has not answered yet on which organizations the App is installed; ghapp keeps asking"
            f"{through_proxy(settings.api_url)}. If it stays so, `ghapp doctor` says why"
        )
    where = settings.credentials.install_url if settings.credentials is not None else None
    install = f". Install it: {where}" if where else ""
    return (
        "The App is not installed on any organization yet; "
        f"GitHub is asked every {UNINSTALLED_DISCOVERY_SECONDS:.0f} seconds{install}"
    )


def _problems(site: Site) -> list[Text]:
    return [plain(problem, "bold red") for problem in site.problems()]


async def _drawn_fleet(
    settings: Settings, stores: Stores, installation: Installation, failures: DrawingFailures
) -> tuple[int, ShowingEvents]:
    """Returns the same as `_fleet`; a line in place of a fleet that cannot be drawn."""
    try:
        return await _fleet(settings, stores, installation)
    except StoreUnavailableError:
        raise
    except Exception as error:  # noqa: BLE001 - of one odd record or event
        return 0, _always(Panel(failures.line(error), title=plain(installation.org)))


async def _fleet(settings: Settings, stores: Stores, installation: Installation) -> tuple[int, ShowingEvents]:
    """Returns the number of registered runners, and the panel."""
    now, org = time.time(), installation.org
    fleet = await load_fleet(stores, installation, settings, now)
    pools = by_pool(fleet, now)
    table = PlainTable(box=None, header_style="bold")
    table.add_column("pool", max_width=POOL_WIDTH, no_wrap=True, overflow="ellipsis")
    for state in COLUMNS:
        table.add_column(state, justify="right", style=COLOURS[state])
    table.add_column("fuse")
    counts = {pool.name: {**pool.count, HEALED: len(pool.healed)} for pool in pools}
    for pool in pools:
        cells = [str(counts[pool.name].get(state) or "") for state in COLUMNS]
        paused = ", paused" if pool.pause is not None else ""
        table.add_row(pool.name, *cells, f"{pool.fuse_text}{paused}")
    incidents = (await stores.incidents.all(installation.id)).values()
    incident = incident_line(incidents, now)
    reaped = await stores.leaks.reaped_since(installation.id, now - DAY_SECONDS)
    tick = await stores.leaks.last(installation.id)
    unused = () if is_overdue(tick.at, now) else kept_now(tick.leaking, reaper_terms(fleet.view, settings))
    summary = await stores.cluster_summaries.of(installation.id)
    cluster = cluster_line(summary, reaped, unused)
    derived = derived_events.derived_events(summary, fleet.view.survey, incidents)
    events = await _events(stores, installation.id, derived)
    empty = [state for state in DROPPED_FIRST if not any(each.get(state) for each in counts.values())]
    cost = Text(await _cost(stores, org), "dim")
    shards = {pool.name: shards_text(shards_of(fleet, pool)) for pool in pools}
    lines = [plain(f"shards of {pool}: {text}", "dim") for pool, text in shards.items() if text]
    lines += [each for each in (incident, cluster, jobs_line(fleet), cost) if each is not None]
    found = headlines(fleet, pools, now)
    worst = headline_lines(found, now) + [plain(each, "dim") for each in notes(fleet, pools, found, now)]
    body = _RenderedOnce(Group(*worst, Text(), ShrinkingTable(table, empty, stacks=False), Text(), *lines, Text()))
    total = fleet.view.survey.total
    title = plain(f"{org}: {total} runners registered")
    return total, lambda most: Panel(Group(body, *events[most]), title=title)


def headline_lines(found: Sequence[Headline], now: float) -> list[Text]:
    """Returns what is worst now, what to do, and a few words of each other thing that is wrong."""
    worst = found[0]
    since = "" if worst.since is None else f" (for {duration(now - worst.since)})"
    lines = [plain(f"{worst.sentence}{since}", SEVERITIES[worst.severity])]
    if worst.step:
        action = f": {action_text(worst.command, worst.link)}" if worst.action else ""
        lines.append(plain(f"→ {worst.step}{action}", "dim"))
    further = found[1:]
    if not worst.needs_a_person:
        acting = next((each for each in further if each.needs_a_person), None)
        if acting is not None:
            action = f": {action_text(acting.command, acting.link)}" if acting.action else ""
            lines.append(plain(f"also: {title_of([acting], names_pools=True)} → {acting.step}{action}"))
            further = [each for each in further if each is not acting]
    if further:
        lines.append(plain(f"also: {title_of(further, names_pools=True)} (all: `ghapp runners`)", "dim"))
    return lines


def incident_line(incidents: Iterable[LossIncident], now: float) -> Text | None:
    """Returns the newest incident, and after how long it healed; None without one of the last ten minutes."""
    known = [each for each in incidents if not each.merged_into and (each.is_open or now - each.began < SHOWN_SECONDS)]
    if not known:
        return None
    found = max(known, key=lambda each: (each.began, each.id))
    state = state_of(found)
    lost = f"{counted(len(found.losses), 'runner')} lost in {visible(where_of(found), NAME_WIDTH)}"
    line = Text(f"incident {timestamp(found.began)[11:19]}: {lost}")
    if found.ended is not None:
        word = "healed in" if state == "healed" else "over after"
        return line.append(f", {word} {duration(found.ended - found.began)}", "green")
    waiting = sum(each.is_open for each in found.losses)
    held = ", a stopped fuse holds the rest" if state == "stopped" else ""
    return line.append(f", {waiting} not healed yet{held}", "red" if held else "yellow")


def cluster_line(summary: ClusterSummary | None, reaped: int, unused: Sequence[LeakingPod] = ()) -> Text | None:
    """Returns the phantoms and the leaked pods; None if there is nothing. Deaths are a note below the headline.

    Args:
        summary: the phantoms; None without a cluster.
        reaped: number of the leaked pods that were deleted in a day.
        unused: the pods that nothing uses, and that are not deleted.
    """
    if summary is None or not (summary.phantoms or reaped or unused):
        return None
    line = Text(f"cluster: {counted(reaped, 'leaked pod')} deleted within a day", "dim")
    for each in summary.phantoms[:1]:
        named = f"{visible(each.subject, NAME_WIDTH)} ({each.reason})"
        line.append(f", {counted(len(summary.phantoms), 'phantom')}: {named}", "yellow")
    for pod in unused[:1]:
        named = visible(pod.pod, NAME_WIDTH) + (f" ({pod.guard})" if pod.guard else "")
        line.append(f", {counted(len(unused), 'unused pod')}: {named}", "yellow")
    return line


def jobs_line(fleet: FleetView) -> Text:
    """Returns the numbers of jobs; queued ones that no pool takes, as of a misspelt label, stand apart."""
    rows = [each for each in fleet.demand if each.pool]
    oldest = min((each.oldest_queued_at for each in rows if each.oldest_queued_at is not None), default=None)
    age = "" if oldest is None else f", the oldest since {clock_time(oldest)}"
    running, queued = sum(each.running for each in fleet.demand), sum(each.queued for each in rows)
    unplaced = sum(each.queued for each in fleet.demand) - queued
    apart = f"; {unplaced} more that no pool takes" if unplaced else ""
    return Text(f"jobs {running} running, {queued} queued{age}{apart}", "dim")


async def _cost(stores: Stores, org: str) -> str:
    totals = await stores.counters.all()
    sweeps = sum(value for name, value in totals.items() if name.startswith(SWEEPS.name) and f'"{org}"' in name)
    calls = totals.get(SWEEP_CALLS.series(org=org), 0)
    billable = totals.get(SWEEP_BILLABLE_CALLS.series(org=org), 0)
    seconds = totals.get(SWEEP_SECONDS.series(org=org), 0)
    mean = 1000 * seconds / sweeps if sweeps else 0
    sent = f"{counted(round(sweeps), 'sweep')} sent {counted(round(calls), 'call')}"
    return f"{sent}, of which {billable:,.0f} count against GitHub's limit; {mean:.0f} ms per sweep"


async def _events(stores: Stores, installation: int, derived: Iterable[dict[str, Any]]) -> dict[int, list[Text]]:
    """Returns the lines of events, also of those that the terminal derives, by how many at most."""
    events, now = _shown_events(await stores.events.latest(installation, EVENTS_READ)), time.time()
    events = sorted([*events, *derived], key=_time_of)
    none = [Text("no events lately" if events else "no events yet", "dim")]
    return {
        most: [_line(each) for each in worth_a_line(events, now, most)] or none for most in range(1, EVENTS_SHOWN + 1)
    }


def _shown_events(rows: Iterable[tuple[str, bytes]]) -> list[dict[str, Any]]:
    """Returns the events without the clean exits, of which a fleet of ephemeral runners has hundreds."""
    events = [msgspec.json.decode(row) for _, row in rows]
    return [each for each in events if each["data"].get("cause") != Cause.CLEAN_EXIT]


def worth_a_line(events: Sequence[dict[str, Any]], now: float, most: int = EVENTS_SHOWN) -> list[dict[str, Any]]:
    """Returns the CloudEvents to show, oldest first: recent last events of each kind, and the latest others."""
    lasts = {event["type"]: number for number, event in enumerate(events)}
    stay = [each for each in lasts.values() if now - _time_of(events[each]) < STAYS_SECONDS]
    others = [each for each in range(len(events)) if each not in stay]
    shown = (sorted(stay, reverse=True) + others[::-1])[:most]
    return [events[each] for each in sorted(shown)]


def _time_of(event: dict[str, Any]) -> float:
    return datetime.fromisoformat(event["time"]).timestamp()


def _line(event: dict[str, Any]) -> Text:
    kind = event["type"].removeprefix("ghapp.").removesuffix(".v1")
    colour = next((colour for word, colour in KIND_COLOURS.items() if word in kind), "")
    when, reason = event["time"][11:19], event["data"].get("reason", "")
    subject = "all pools" if event["subject"] == ALL_POOLS else event["subject"]
    first = ((f"{when}  ", "dim"), (visible(f"{kind:<16}"), colour))
    return Text.assemble(*first, f"  {visible(subject, NAME_WIDTH)}  ", (visible(reason, NAME_WIDTH), "dim"))


async def _hints(site: Site) -> Text:
    """Returns commands to try while the sandbox runs; their token ends with it."""
    async with open_stores(site.settings.redis_url or "") as stores:
        secret, _ = await stores.tokens.create("sandbox", ("acme",), ("read",), time.time())
    address, environment = local_url(site.settings), f". {shlex.quote(str(site.settings.state_dir / 'env'))} &&"
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


async def _pipeline(settings: Settings) -> SandboxPipeline:
    """Returns the pipeline that reports the sandbox's deploys."""
    async with open_stores(settings.redis_url or "") as stores:
        secret, _ = await stores.tokens.create("deploy pipeline", ("acme",), ("claim",), time.time())
    return SandboxPipeline(f"{local_url(settings)}/v1/orgs/acme/pools/rollout", secret)


def _notes(settings: Settings, director: Director | None) -> list[Text]:
    """Returns the scenarios that were started, each with its page."""
    started = [] if director is None else director.shown
    return [Text.assemble((f"{each.look} ", "bold"), (f"{local_url(settings)}{each.page}", "cyan")) for each in started]


def _footer(settings: Settings, director: Director | None) -> Text:
    """Returns the keys that start scenarios, and the log."""
    text = Text()
    if director is not None:
        text.append(f"Start: {keys_line()}\n", "dim")
    return text.append(f"Ctrl-C stops everything. Log: {log_path(settings)}", "dim")
