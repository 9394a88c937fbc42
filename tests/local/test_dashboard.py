"""What the terminal shows while `ghapp up` runs."""

from __future__ import annotations

import asyncio
import io
import time
from contextlib import suppress
from types import SimpleNamespace

import pytest
from rich.console import Console
from rich.errors import MarkupError
from rich.text import Text

from ghapp.deaths.cluster_summary import ClusterSummary, PhantomChange
from ghapp.deaths.post_mortem_store import ClusterSummaries
from ghapp.errors import StoreUnavailableError
from ghapp.incidents.incident import FuseStep, LossEnd, LossIncident, RunnerLoss, incident_of
from ghapp.incidents.store import Incidents
from ghapp.installations.installation import Installation
from ghapp.installations.store import Installations
from ghapp.leaks.reaper_status import LeakingPod
from ghapp.local import dashboard, derived_events
from ghapp.local.dashboard import (
    EVENTS_SHOWN,
    LEAST_EVENTS,
    SHOWN_SECONDS,
    STAYS_SECONDS,
    UNLIMITED,
    cluster_line,
    frames,
    headline_lines,
    incident_line,
    jobs_line,
    worth_a_line,
)
from ghapp.notifications.event_store import Events
from ghapp.pods.phantom_kinds import Phantom, PhantomKind, PhantomReason
from ghapp.remediation.fuse import Position
from ghapp.remediation.pause import Pause
from ghapp.report.documents import timestamp
from ghapp.report.fleet import by_pool
from ghapp.report.headlines import headlines
from ghapp.runners.evidence import Survey
from ghapp.runners.store import Runners
from ghapp.settings import Settings
from ghapp.store.schedule import Schedule
from ghapp.store.stores import stores_over
from ghapp.untrusted_text import visible
from ghapp.wording import clock_time
from ghapp.workflow_jobs.demand import PoolDemand
from tests.report.fleets import fleet_of
from tests.rules.builders import NOW as BUILT
from tests.rules.builders import lost
from tests.support import nasty_fleet
from tests.support.keys import private_key
from tests.support.nasty_names import NASTY, PLAIN, not_seen

NOW = 1_790_000_000.0

APP = {"GHAPP_APP_ID": "1", "GHAPP_PRIVATE_KEY": private_key(), "GHAPP_WEBHOOK_SECRET": "secret"}


class Supervised:
    """A site without roles, that counts how often it was looked after."""

    sandbox = None

    def __init__(self, url):
        self.supervised, self.warnings = 0, []
        self.settings = Settings.read({**APP, "GHAPP_REDIS_URL": url})

    def supervise(self):
        self.supervised += 1

    def problems(self):
        return []

    def warn(self, event, **facts):
        self.warnings.append((event, facts))


def drawn(frame, width):
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=True, color_system=None).print(frame)
    return out.getvalue()


async def test_a_redis_that_does_not_answer_is_reported_and_retried():
    site = Supervised("redis://127.0.0.1:1/0")
    shown = frames(site)
    for turn in (1, 2):
        assert "Redis does not answer, retrying" in drawn(await anext(shown), 80)
        assert site.supervised == turn, "the roles are looked after meanwhile"
    await shown.aclose()


@pytest.mark.parametrize(
    ("term", "is_drawn"), [("xterm", True), ("dumb", False), ("unknown", False)], ids=["xterm", "dumb", "unknown"]
)
async def test_a_terminal_without_a_cursor_gets_lines(monkeypatch, term, is_drawn):
    async def drawing(*_args):
        yield "frame"
        raise asyncio.CancelledError

    async def printing(*_args):
        raise asyncio.CancelledError

    drawn_frames, printed = [], []
    monkeypatch.setenv("TERM", term)
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setattr(dashboard, "frames", lambda *_: drawn_frames.append(1) or drawing())
    monkeypatch.setattr(dashboard, "_print_changes", lambda *_: printed.append(1) or printing())
    settings = Settings.read(APP)
    site = SimpleNamespace(
        page_key="k", sandbox=None, terminal=lambda _: None, settings=settings, web_answers=lambda: True
    )
    with pytest.raises(asyncio.CancelledError):
        await dashboard._show(site, (), browser=False)
    assert (bool(drawn_frames), bool(printed)) == (is_drawn, not is_drawn)


class Starting(Supervised):
    """A site whose web role answers after its `problems_in_turn` were asked for."""

    page_key = "k"

    def __init__(self, url, problems_in_turn):
        super().__init__(url)
        self.problems_in_turn = list(problems_in_turn)

    def web_answers(self):
        return not self.problems_in_turn

    def problems(self):
        return self.problems_in_turn.pop(0)


def ended(*_args):
    raise asyncio.CancelledError


@pytest.mark.parametrize(
    ("problems_in_turn", "lines"),
    [
        ([["web exited"], ["web exited"], []], ["web exited"]),
        ([["web exited"], ["web exited", "disk full"], ["disk full"]], ["web exited", "disk full"]),
        ([["web exited"], [], ["web exited"]], ["web exited", "web exited"]),
    ],
    ids=["once while it lasts", "each of several", "again when it is back"],
)
async def test_what_does_not_work_is_printed_before_the_page_answers(monkeypatch, capsys, problems_in_turn, lines):
    monkeypatch.setattr(dashboard, "page_line", ended)
    with pytest.raises(asyncio.CancelledError):
        await dashboard._show(Starting("redis://127.0.0.1:1/0", problems_in_turn), (), browser=False)
    assert capsys.readouterr().out.splitlines() == lines


async def test_a_page_that_does_not_answer_for_long_is_named_with_the_log(monkeypatch, capsys):
    monkeypatch.setattr(dashboard, "SLOW_START_SECONDS", 0.0)
    monkeypatch.setattr(dashboard, "page_line", ended)
    site = Starting("redis://127.0.0.1:1/0", [[], []])
    with pytest.raises(asyncio.CancelledError):
        await dashboard._show(site, (), browser=False)
    expected = f"the web role does not answer yet, still trying; see {site.settings.state_dir / 'ghapp.log'}"
    assert capsys.readouterr().out.splitlines() == [expected]


async def test_a_redis_that_starts_again_is_one_line_whatever_each_attempt_says(monkeypatch, capsys):
    attempts = iter(["Error 111 connecting to unix:/r.sock. Refused.", "Error 2 connecting to unix:/r.sock. Missing."])

    async def failing(_self):
        try:
            raise StoreUnavailableError(next(attempts))
        except StopIteration:
            raise asyncio.CancelledError from None

    monkeypatch.setattr(Installations, "all", failing)
    with pytest.raises(asyncio.CancelledError):
        await dashboard._print_changes(
            Supervised("redis://127.0.0.1:1/0"), None, dashboard.ProblemPrinter(Console(width=200))
        )
    expected = "Redis does not answer, retrying. (connecting to unix:/r.sock. Refused)"
    assert capsys.readouterr().out.splitlines() == [expected]


@pytest.mark.parametrize(("total", "is_started"), [(0, False), (1, True)])
async def test_a_scenario_begins_when_the_fleet_is_seen_and_not_when_the_app_is(
    monkeypatch, redis, redis_url, total, is_started
):
    class Stage:
        started = False

        async def start_due(self, _now):
            self.started = True

    installation, director = Installation(7, "acme", 70), Stage()
    await Installations(redis).put(installation)
    await Runners(redis).save_survey(installation.id, Survey(total=total))
    monkeypatch.setattr(dashboard, "_raise_if_cancelled", ended)
    with pytest.raises(asyncio.CancelledError):
        await dashboard._print_changes(Supervised(redis_url), director, dashboard.ProblemPrinter(Console()))
    assert director.started is is_started


async def test_what_the_terminal_derives_is_a_line_among_the_events_once(monkeypatch, capsys, redis, redis_url):
    await Installations(redis).put(Installation(7, "acme", 70))
    now, rounds = time.time(), 0
    old, found = PhantomChange(now - 60, "arc-0", "PodLost"), PhantomChange(now + 10, "arc-1", "PodLost")
    changes = [(old,), (old, found), (old, found, found._replace(at=now + 20, is_over=True))]
    surveys = [
        Survey(now - 30, 3),
        Survey(now - 30, 3, failing_since=now - 26, failure="GitHubUnavailable"),
        Survey(now + 15, 3, blind=((now - 30, now),), gaps=((now + 1, now + 15),)),
    ]
    loss = RunnerLoss(1, "linux-1", "linux", now - 40)
    ended = loss._replace(end=LossEnd.SUCCESSOR_ONLINE, successor=2, ended_at=now - 10)
    losses = [(loss,), (loss,), (ended,)]

    async def store(number):
        await ClusterSummaries(redis).keep(7, ClusterSummary(now, changes=changes[number]))
        await Runners(redis).save_survey(7, surveys[number])
        await Incidents(redis).revise(7, lambda _: {"a": incident_of("a", losses[number], [])}, now)

    async def next_round(_seconds):
        nonlocal rounds
        rounds += 1
        if rounds == len(changes):
            raise asyncio.CancelledError
        await store(rounds)

    await store(0)
    monkeypatch.setattr(dashboard.asyncio, "sleep", next_round)
    monkeypatch.setattr(dashboard, "HEADLINE_SECONDS", 0.0)
    with pytest.raises(asyncio.CancelledError):
        await dashboard._print_changes(Supervised(redis_url), None, dashboard.ProblemPrinter(Console(width=200)))
    lines = [line.split()[1:] for line in capsys.readouterr().out.splitlines()]
    assert [line for line in lines if line and line[0] in derived_events.COLOURS] == [
        ["blind.began", "all", "pools", "GitHubUnavailable"],
        ["phantom.found", "arc-1", "PodLost"],
        ["incident.healed", "linux", "1", "runner", "in", "30", "s"],
        ["blind.over", "all", "pools", "after", "30", "s"],
        ["list.late", "all", "pools", *f"no list since {clock_time(now + 1)}, 14 s".split()],
        ["phantom.over", "arc-1", "PodLost"],
    ]
    panel = await dashboard._events(stores_over(redis), 7, await dashboard._derived_events(stores_over(redis), 7))
    shown = [
        "phantom.found",
        "blind.began",
        "incident.healed",
        "blind.over",
        "phantom.found",
        "list.late",
        "phantom.over",
    ]
    assert [line.plain.split()[1] for line in panel[8]] == shown


@pytest.mark.parametrize(
    ("incident", "is_shown"),
    [
        (incident_of("a", [RunnerLoss(1, "r", "linux", NOW)], []), False),
        (incident_of("a", [RunnerLoss(1, "r", "linux", NOW, end=LossEnd.RETURNED, ended_at=NOW + 5)], []), True),
        (incident_of("a", [RunnerLoss(1, "r", "linux", NOW, end=LossEnd.AGED_OUT, ended_at=NOW + 5)], []), False),
        (LossIncident("a", "linux", NOW, NOW + 5, merged_into="b"), False),
    ],
    ids=["open", "healed", "ended otherwise", "merged"],
)
def test_an_incident_that_healed_is_an_event(incident, is_shown):
    found = derived_events.derived_events(None, Survey(), [incident])
    assert [(each["type"], each["subject"]) for each in found] == ([("incident.healed", "linux")] if is_shown else [])


async def test_ctrl_c_ends_it_even_if_its_cancellation_was_lost(monkeypatch):
    async def losing(*_args):
        """Yields frames; the first cancellation is lost, as by `asyncio.wait_for` before Python 3.12."""
        for _ in range(100):
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)
            yield ""

    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setattr(dashboard, "frames", losing)
    settings = Settings.read(APP)
    site = SimpleNamespace(page_key="k", sandbox=None, terminal=None, settings=settings, web_answers=lambda: True)
    showing = asyncio.create_task(dashboard._show(site, (), browser=False))
    await asyncio.sleep(0.05)
    showing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(showing, 1)
    assert showing.cancelling() == 1, "it ended by the first"


async def test_a_resized_terminal_is_cleared_once_and_has_the_address_of_the_page(monkeypatch):
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, width=80, height=24)

    async def resized(*_args):
        for number, size in enumerate([(80, 24), (60, 24), (60, 20), (60, 20)]):
            console.size = size
            yield Text(f"frame {number}")

    monkeypatch.setattr(dashboard, "Console", lambda: console)
    monkeypatch.setattr(dashboard, "frames", resized)
    site = SimpleNamespace(
        page_key="k", sandbox=None, terminal=None, settings=Settings.read(APP), web_answers=lambda: True
    )
    await dashboard._show(site, (), browser=False)
    screens = shown.getvalue().split("\x1b[2J")
    assert ["?key=k" in each for each in screens] == [True] * 3, "one for each size"
    assert ["frame 1" in screens[0], "frame 2" in screens[1], "frame 3" in screens[2]] == [False, False, True]


@pytest.mark.parametrize("width", [80, 120])
async def test_its_table_is_whole_on_every_terminal(redis, redis_url, width):
    await Installations(redis).put(Installation(7, "acme", 70))
    shown = frames(Supervised(redis_url))
    lines = drawn(await anext(shown), width).splitlines()
    await shown.aclose()
    assert "acme: 0 runners registered" in lines[0]
    (head,) = [line for line in lines if line.split()[1:3] == ["pool", "healthy"]]
    assert head.split()[-2] == "fuse"
    assert "…" not in "".join(lines)
    assert {len(line) for line in lines[: lines.index(next(each for each in lines if each.startswith("╰"))) + 1]} == {
        width
    }


def event(number, kind, at=NOW):
    return {"type": f"ghapp.{kind}.v1", "subject": str(number), "time": timestamp(at)}


def subjects(events, now=NOW):
    return [each["subject"] for each in worth_a_line(events, now)]


@pytest.mark.parametrize(
    ("spare", "events", "notes"),
    [(-9, 0, 0), (3, 1, 1), (4, 2, 1), (5, LEAST_EVENTS, 1), (7, LEAST_EVENTS, 2), (13, LEAST_EVENTS, 5), (16, 6, 5)],
)
async def test_a_low_terminal_shows_fewer_events_and_scenarios_and_always_the_keys(
    redis, redis_url, spare, events, notes
):
    """`spare`: rows for events, of one row, and scenarios, of two."""
    await Installations(redis).put(Installation(7, "acme", 70))
    for number in range(20):
        await Events(redis).append(7, {**event(number, "runner.offline"), "id": str(number), "data": {}}, None)
    started = [SimpleNamespace(look=f"Scenario {number} began: {'x' * 60}", page="/") for number in range(5)]
    height = UNLIMITED
    shown = frames(Supervised(redis_url), SimpleNamespace(shown=started), lambda: height)
    needed = len(drawn(await anext(shown), 80).splitlines())
    rest = needed - EVENTS_SHOWN - 2 * len(started)
    height = rest + spare
    lines = drawn(await anext(shown), 80).splitlines()
    await shown.aclose()
    assert sum("runner.offline" in line for line in lines) == events
    assert [line.split()[1] for line in lines if line.startswith("Scenario")] == list("01234")[5 - notes :]
    assert any(line.startswith("Start: 1 loss") for line in lines)
    assert any(line.startswith("Ctrl-C stops everything") for line in lines)
    assert len(lines) <= height


async def test_a_low_terminal_renders_the_table_once(redis, redis_url, monkeypatch):
    """And not again for each event that it leaves out."""
    await Installations(redis).put(Installation(7, "acme", 70))
    for number in range(20):
        await Events(redis).append(7, {**event(number, "runner.offline"), "id": str(number), "data": {}}, None)
    rendered, render = [], dashboard.ShrinkingTable.__rich_console__
    monkeypatch.setattr(dashboard.ShrinkingTable, "__rich_console__", lambda *args: rendered.append(1) or render(*args))
    shown = frames(Supervised(redis_url), height=lambda: 12)
    drawn(await anext(shown), 80)
    await shown.aclose()
    assert len(rendered) == 1


def test_the_last_events_are_shown_oldest_first():
    assert subjects([event(each, "runner.offline") for each in range(20)]) == [str(each) for each in range(12, 20)]
    assert subjects([event(each, "runner.offline") for each in range(3)]) == ["0", "1", "2"]
    assert subjects([]) == []


def test_what_many_others_follow_at_once_is_shown_all_the_same():
    events = [event("asked", "runner.replace"), *(event(each, "runner.offline") for each in range(100))]
    assert subjects(events) == ["asked", *(str(each) for each in range(93, 100))]


@pytest.mark.parametrize(("passed", "is_shown"), [(STAYS_SECONDS - 0.5, True), (STAYS_SECONDS, False)])
def test_it_stays_for_a_while(passed, is_shown):
    events = [event("asked", "runner.replace"), *(event(each, "runner.offline") for each in range(EVENTS_SHOWN))]
    assert ("asked" in subjects(events, NOW + passed)) is is_shown


def test_of_more_kinds_than_there_are_lines_the_last_are_shown():
    events = [event(each, f"kind-{each}") for each in range(EVENTS_SHOWN + 2)]
    assert subjects(events) == [str(each) for each in range(2, EVENTS_SHOWN + 2)]


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        ([], "jobs 0 running, 0 queued"),
        ([PoolDemand("linux", 0, 1, 2, 1)], "jobs 1 running, 0 queued"),
        (
            [
                PoolDemand("linux", 2, 1, 2, 1, oldest_queued_at=NOW),
                PoolDemand("gpu", 1, 0, 0, 0, oldest_queued_at=NOW - 60),
            ],
            f"jobs 1 running, 3 queued, the oldest since {clock_time(NOW - 60)}",
        ),
        (
            [
                PoolDemand("", 2, 1, 0, 0, oldest_queued_at=NOW - 90),
                PoolDemand("linux", 1, 1, 2, 1, oldest_queued_at=NOW),
            ],
            f"jobs 2 running, 1 queued, the oldest since {clock_time(NOW)}; 2 more that no pool takes",
        ),
    ],
    ids=["none", "running", "queued", "of a misspelt label"],
)
def test_jobs_are_one_line(rows, line):
    assert jobs_line(fleet_of(demand=rows)).plain == line


def test_the_worst_headline_has_its_step_and_the_others_a_few_words():
    found = headlines_of(fleet_of(lost(1), pauses={"linux-4vcpu": Pause("mona", "a move", NOW)}))
    assert [each.plain for each in headline_lines(found, NOW + 60)] == [
        "1 of 1 runner of linux-4vcpu is lost: remediation is paused by mona: a move. (for 2 min)",
        "→ resume when the reason is over: `ghapp resume acme --pool linux-4vcpu`",
        "also: paused by mona (linux-4vcpu) (all: `ghapp runners`)",
    ]


def test_what_needs_a_person_has_its_step_below_what_needs_none():
    paused = {"rollout": Pause("mona", "a move", NOW)}
    found = headlines_of(fleet_of(lost(1, granted_at=NOW), pauses=paused))
    assert [each.plain for each in headline_lines(found, NOW + 60)][1:] == [
        "→ nothing to do: replacement goes on by itself",
        "also: paused by mona (rollout) → resume when the reason is over: `ghapp resume acme --pool rollout`",
    ]


def headlines_of(fleet):
    return headlines(fleet, by_pool(fleet, BUILT), BUILT)


def loss(number, healed_at=None):
    end = LossEnd.OPEN if healed_at is None else LossEnd.SUCCESSOR_ONLINE
    return RunnerLoss(number, f"r-{number}", "linux", NOW, end=end, ended_at=healed_at)


STOPPED = FuseStep(NOW + 5, "linux", Position.STOPPED)


@pytest.mark.parametrize(
    ("losses", "steps", "line"),
    [
        ([loss(1), loss(2, NOW + 9)], [], "2 runners lost in linux, 1 not healed yet"),
        ([loss(1), loss(2)], [STOPPED], "2 runners lost in linux, 2 not healed yet, a stopped fuse holds the rest"),
        ([loss(1, NOW + 14), loss(2, NOW + 9)], [], "2 runners lost in linux, healed in 14 s"),
        ([loss(1, NOW + 61)._replace(end=LossEnd.NO_SUCCESSOR)], [], "1 runner lost in linux, over after 1 min 1 s"),
    ],
    ids=["open", "stopped", "healed", "over"],
)
def test_an_incident_is_one_line_that_ends_with_how_long_it_took(losses, steps, line):
    shown = incident_line([incident_of("a", losses, steps)], NOW + 100).plain
    assert shown == f"incident {timestamp(NOW)[11:19]}: {line}"


def test_an_incident_of_the_whole_installation_is_named_by_the_pools_of_its_losses():
    one, other = loss(1), loss(2)
    incident = incident_of("a", [one, other], [])._replace(pool="*")
    assert f"2 runners lost in {one.pool}, " in incident_line([incident], NOW + 100).plain
    several = incident._replace(losses=(one, other._replace(pool="gpu")))
    assert "2 runners lost in 2 pools, " in incident_line([several], NOW + 100).plain


def test_the_newest_incident_is_shown_and_not_one_that_another_took_over():
    old, new = incident_of("a", [loss(1, NOW + 5)], []), incident_of("b", [loss(2)._replace(first_at=NOW + 50)], [])
    merged = LossIncident("c", "linux", NOW + 60, NOW + 60, merged_into="b")
    assert "1 not healed yet" in incident_line([new, old, merged], NOW + 100).plain
    assert incident_line([merged], NOW + 100) is None


@pytest.mark.parametrize(("passed", "is_shown"), [(SHOWN_SECONDS - 0.5, True), (SHOWN_SECONDS, False)])
def test_an_incident_that_is_over_is_shown_for_a_while_and_an_open_one_always(passed, is_shown):
    over = incident_of("a", [loss(1, NOW + 5)], [])
    assert (incident_line([over], NOW + passed) is not None) is is_shown
    assert incident_line([incident_of("a", [loss(1)], [])], NOW + passed) is not None


PHANTOM = Phantom(PhantomKind.OBJECT_WITHOUT_POD, "arc-1", PhantomReason.POD_LOST, "")


@pytest.mark.parametrize(
    ("summary", "reaped", "unused", "line"),
    [
        (None, 0, [], None),
        (ClusterSummary(NOW), 0, [], None),
        (ClusterSummary(NOW), 2, [], "cluster: 2 leaked pods deleted within a day"),
        (
            ClusterSummary(NOW),
            0,
            [LeakingPod("runners", "pod-1", "", NOW, "UnclaimedBriefly"), LeakingPod("runners", "pod-2", "", NOW)],
            "cluster: 0 leaked pods deleted within a day, 2 unused pods: pod-1 (UnclaimedBriefly)",
        ),
        (
            ClusterSummary(NOW),
            1,
            [LeakingPod("runners", "pod-2", "", NOW)],
            "cluster: 1 leaked pod deleted within a day, 1 unused pod: pod-2",
        ),
        (
            ClusterSummary(NOW, phantoms=(PHANTOM,)),
            0,
            [],
            "cluster: 0 leaked pods deleted within a day, 1 phantom: arc-1 (PodLost)",
        ),
    ],
    ids=["no cluster", "nothing", "reaped", "unused", "one unused", "phantom"],
)
def test_the_cluster_is_one_line(summary, reaped, unused, line):
    shown = cluster_line(summary, reaped, unused)
    assert (shown and shown.plain) == line


async def test_the_lines_to_paste_work_with_a_path_that_has_spaces(redis_url):
    site = Supervised(redis_url)
    site.settings = Settings.read({"GHAPP_REDIS_URL": redis_url, "GHAPP_STATE_DIR": "/a path"})
    text = drawn(await dashboard._hints(site), 250)
    assert text.count(". '/a path/env' && ghapp ") == 3


@pytest.mark.parametrize(
    ("discovery_in", "text"),
    [
        (None, "GitHub is being asked on which organizations the App is installed"),
        (-16, "GitHub has not answered yet on which organizations the App is installed"),
        (-14, "The App is not installed on any organization yet; GitHub is asked every 5 seconds"),
        (5, "The App is not installed on any organization yet; GitHub is asked every 5 seconds"),
    ],
)
async def test_without_an_installation_it_says_what_is_waited_for(redis, redis_url, discovery_in, text):
    if discovery_in is not None:
        await Schedule(redis).discover_at(time.time() + discovery_in)
    shown = frames(Supervised(redis_url))
    assert text in " ".join(drawn(await anext(shown), 400).split())
    await shown.aclose()


async def test_without_an_answer_of_github_since_the_start_it_says_so(redis, redis_url, monkeypatch):
    monkeypatch.setattr(dashboard, "OVERDUE_SECONDS", 0.0)
    shown = frames(Supervised(redis_url))
    assert "GitHub has not answered yet on which" in " ".join(drawn(await anext(shown), 400).split())
    await shown.aclose()


async def test_without_an_answer_of_github_the_proxy_is_named(redis, redis_url, monkeypatch):
    monkeypatch.setattr(dashboard, "OVERDUE_SECONDS", 0.0)
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    shown = frames(Supervised(redis_url))
    text = " ".join(drawn(await anext(shown), 400).split())
    assert "ghapp keeps asking through the proxy proxy.example:3128; check HTTPS_PROXY, " in text
    await shown.aclose()


async def test_what_does_not_work_is_in_the_frame(redis, redis_url):
    site = Supervised(redis_url)
    site.problems = lambda: ["worker exited with code -9; it is started again at 12:00:00 UTC"]
    shown = frames(site)
    assert "worker exited with code -9; it is started again at 12:00:00 UTC" in drawn(await anext(shown), 120)
    await shown.aclose()


async def frame_of(redis, redis_url, organizations, names):
    """A frame of these organizations, the first of which has a fleet of these names."""
    first, *others = organizations
    await nasty_fleet.store(redis, Installation(7, first, 70), names, time.time())
    for number, org in enumerate(others):
        await Installations(redis).put(Installation(100 + number, org, 1000 + number))
    site = Supervised(redis_url)
    shown = frames(site)
    text = drawn(await anext(shown), 200)
    await shown.aclose()
    await redis.flushdb()
    assert site.warnings == []
    return text


async def test_names_of_others_are_text_in_the_frame_and_take_the_same_lines(redis, redis_url):
    plain = await frame_of(redis, redis_url, PLAIN, PLAIN)
    nasty = await frame_of(redis, redis_url, NASTY[::-1], NASTY)  # the first one's title is long
    assert not_seen(nasty, "\n") == {}
    assert len(nasty.splitlines()) == len(plain.splitlines())
    assert [name for name in NASTY[:-1] if f"{visible(name).strip()}: 0 runners registered" not in nasty] == []


@pytest.mark.parametrize("error", [KeyError("odd"), MarkupError("[/nope]")], ids=["a key", "markup"])
async def test_an_error_of_one_fleet_is_a_line_and_is_logged_once(redis, redis_url, monkeypatch, error):
    for number, org in enumerate(["acme", "globex"]):
        await Installations(redis).put(Installation(7 + number, org, 70 + number))
    fleet = dashboard._fleet

    async def failing(settings, stores, installation):
        if installation.org == "acme":
            raise error
        return await fleet(settings, stores, installation)

    monkeypatch.setattr(dashboard, "_fleet", failing)
    site = Supervised(redis_url)
    shown = frames(site)
    for _ in range(2):
        text = drawn(await anext(shown), 200)
        assert f"This part cannot be drawn ({type(error).__name__}); see " in text
        assert "globex: 0 runners registered" in text
    monkeypatch.undo()
    assert "acme: 0 runners registered" in drawn(await anext(shown), 200), "drawing goes on"
    await shown.aclose()
    assert [(event, facts["kind"]) for event, facts in site.warnings] == [("drawing failed", type(error).__name__)]


async def test_an_error_while_a_part_is_rendered_costs_that_part_alone(redis, redis_url, monkeypatch):
    class Odd:
        def __rich_console__(self, *_):
            raise MarkupError("closing tag '[/nope]' doesn't match any open tag")

    async def odd(*_):
        return 0, lambda _: Odd()

    await Installations(redis).put(Installation(7, "acme", 70))
    monkeypatch.setattr(dashboard, "_fleet", odd)
    site = Supervised(redis_url)
    shown = frames(site)
    text = drawn(await anext(shown), 200)
    await shown.aclose()
    assert "This part cannot be drawn (MarkupError)" in text
    assert "Ctrl-C stops everything." in text
    assert [facts["why"] for _, facts in site.warnings] == ["closing tag '[/nope]' doesn't match any open tag"]


async def test_an_error_before_any_fleet_is_read_ends_no_frame(redis, redis_url, monkeypatch):
    async def odd(_self):
        raise ValueError("an odd record")

    monkeypatch.setattr(Installations, "all", odd)
    site = Supervised(redis_url)
    shown = frames(site)
    for _ in range(2):
        assert "This part cannot be drawn (ValueError)" in drawn(await anext(shown), 200)
    await shown.aclose()
    assert len(site.warnings) == 1


async def test_an_odd_event_is_one_line_and_later_events_are_printed(redis, redis_url, monkeypatch, capsys):
    await Installations(redis).put(Installation(7, "acme", 70))
    turns = iter(
        [
            {"id": "1", "type": "ghapp.odd.v1"},
            {**event(2, "runner.offline"), "id": "2", "data": {"reason": NASTY[0]}},
            None,
        ]
    )

    async def next_turn(_seconds):
        if (added := next(turns)) is None:
            raise asyncio.CancelledError
        await Events(redis).append(7, added, None)

    monkeypatch.setattr(dashboard.asyncio, "sleep", next_turn)
    site = Supervised(redis_url)
    with pytest.raises(asyncio.CancelledError):
        await dashboard._print_changes(site, None, dashboard.ProblemPrinter(Console(width=200)))
    first, headline, odd, last = capsys.readouterr().out.splitlines()
    assert "acme: Runners cannot be read" in headline
    assert (first, odd.partition(";")[0]) == ("the App is installed on acme", "This part cannot be drawn (KeyError)")
    assert visible(NASTY[0]) in last
    assert len(site.warnings) == 1
