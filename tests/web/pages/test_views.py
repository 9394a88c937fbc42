"""The content of each page as a pure function of the stored data."""

from __future__ import annotations

import re

import pytest

from ghapp.deaths.cause import Cause
from ghapp.deaths.death import DeadJob, Death
from ghapp.deliveries.store import DeadLetter
from ghapp.installations.installation import NEEDED, Installation
from ghapp.installations.pacing import Allowance, BudgetLimits
from ghapp.queue.jobs import Load
from ghapp.remediation.fuse import Fuse, FuseReason, Position
from ghapp.remediation.pause import Pause
from ghapp.report.headline import Severity
from ghapp.report.org_view import OrgView
from ghapp.runners.evidence import Survey
from ghapp.runners.next_attempt import NextAttempt
from ghapp.runners.observations import replaced
from ghapp.runners.page_views import (
    SUCCESSOR_SECONDS,
    RunnerLine,
    RunnerQuery,
    lines,
    read_query,
    runner_page,
    runners_page,
)
from ghapp.runners.verdict import Limits
from ghapp.store.audit import AuditEntry
from ghapp.web.pages.views.github_status import github_page
from ghapp.web.pages.views.overview import overview
from ghapp.web.pages.views.paging import PAGE_SIZE, UnknownValueError, pool_note
from ghapp.web.pages.views.system import audit_lines, system_page
from ghapp.web.pages.views.wording import due, linked_outcome, moment, page_duration
from ghapp.wording import counted, time_of
from ghapp.workflow_jobs.demand import PoolDemand
from ghapp.workflow_jobs.job import Job
from tests.report.fleets import fleet_of, healed
from tests.web.conftest import NOW, healthy, invalidated

POOL = "linux-4vcpu"
SWEPT = Survey(NOW - 3, 2)
STOPPED = Fuse(Position.STOPPED, NOW - 90, 3, 3, reason=FuseReason.BATCH_NEVER_ONLINE, stopped_at=NOW - 30)
PROVING = Fuse(Position.PROVING, NOW - 90, 3, 3, reason=FuseReason.MASS_LOSS)
PAUSE = Pause("mona", "network", NOW - 60)
WELL = (healthy(1, "a"), healthy(2, "b"))
LOST = (*WELL, invalidated(3, "c"))


def fleet(*runners, **changes):
    return fleet_of(*runners, **{"survey": SWEPT} | changes)


def offline(runner):
    return runner._replace(online=False, offline_since=NOW - 600)


def suspect(runner):
    return runner._replace(listed=False, absent_since=NOW - 2, observed_at=NOW - 4)


@pytest.mark.parametrize(("age", "state"), [(3900, "invalidated"), (3901, "no-successor")])
def test_a_loss_without_a_successor_is_over_in_the_list_and_on_its_own_page(age, state):
    runner = invalidated(3, "c")._replace(granted_at=NOW - age, removed_at=NOW - age, replaced_at=NOW - age)
    view = fleet(runner).view
    known = lines(view, [runner], NOW)
    assert [each.state for each in known] == [state]
    assert len(runners_page(known, RunnerQuery(), NOW).rows) == (state == "invalidated")
    assert len(runners_page(known, read_query({"state": state}), NOW).rows) == 1
    assert (
        runner_page(view, runner, [], None, None, lambda _: True, NOW, manages=True, reads_node_logs=True).state
        == state
    )


# Formatting.


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (NOW, "just now"),
        (NOW - 4.9, "just now"),
        (NOW - 5, "5 s ago"),
        (NOW - 59, "55 s ago"),
        (NOW - 60, "1 min ago"),
        (NOW - 3599, "59 min ago"),
        (NOW - 3600, "1 h ago"),
        (NOW - 86_399, "23 h 59 min ago"),
        (NOW - 86_400, "1 d ago"),
        (NOW - 90_000, "1 d 1 h ago"),
        (NOW + 4.9, "now"),
        (NOW + 5, "in 5 s"),
        (NOW + 90, "in 1 min"),
    ],
)
def test_a_duration_has_at_most_two_units(at, text):
    assert moment(at, NOW).text == text


def test_an_unknown_time_is_empty_and_a_known_time_has_an_exact_attribute():
    assert moment(None, NOW) is None
    assert moment(NOW - 0.5, NOW).iso == "2027-01-15T07:59:59Z"


@pytest.mark.parametrize(("at", "text"), [(NOW + 60, "in 1 min"), (NOW, "now"), (NOW - 60, "now")])
def test_what_is_overdue_is_due_now(at, text):
    assert due(at, NOW).text == text
    assert due(None, NOW) is None


def test_a_count_has_its_noun():
    assert [counted(0, "runner"), counted(1, "runner"), counted(2000, "delivery", "deliveries")] == [
        "0 runners",
        "1 runner",
        "2,000 deliveries",
    ]
    assert page_duration(7260) == "2 h 1 min"


# The overview.


def test_the_overview_begins_with_the_worst_headline_and_lists_the_others():
    page = overview(fleet(*LOST, fuses={"gpu": STOPPED}), NOW, {POOL: "i"})
    lost, (fuse,) = page.headline, page.others
    assert not page.is_well
    assert (lost.severity, lost.sentence) == (
        Severity.ATTENTION,
        f"1 of 3 runners of {POOL} is lost: it waits for its turn with the next sweep, which grants a limited number.",
    )
    assert (lost.incident, lost.page) == ("i", f"runners?pool={POOL}&state=invalidated")
    assert (fuse.severity, fuse.since.text, fuse.command) == (
        Severity.CRITICAL,
        "30 s ago",
        "ghapp resume acme --pool gpu",
    )
    assert "".join(each.text for each in fuse.step).startswith("Find out why no successor came online")
    read = page.for_readers()
    assert (read.headline, read.others[0].command) == (lost, "")
    assert "".join(each.text for each in read.others[0].step).startswith("An admin of ghapp: find out why")
    assert page.can_resume


def test_a_pool_has_its_counts_a_bar_that_adds_up_and_its_pause():
    page = overview(fleet(*LOST, healed(4, NOW, custom_labels=(POOL,)), pauses={POOL: PAUSE}), NOW)
    (pool,) = page.pools
    assert (pool.total, pool.healed, pool.fuse) == (3, 1, "closed")
    assert {each.state: each.runners for each in pool.states if each.runners} == {"healthy": 2, "invalidated": 1}
    assert sum(each.width for each in pool.states) == pytest.approx(100, abs=0.01)
    assert (pool.pause.who, pool.pause.why) == ("mona", "network")


def test_a_pool_has_its_idle_runners_and_its_queued_jobs_with_the_oldest():
    rows = [PoolDemand(POOL, queued=3, running=1, online=2, idle=1, oldest_queued_at=NOW - 300)]
    (pool,) = overview(fleet(*WELL, demand=rows), NOW).pools
    assert (pool.idle, pool.queued, pool.oldest.text) == (1, 3, "5 min ago")
    (pool,) = overview(fleet(*WELL), NOW).pools
    assert (pool.idle, pool.queued, pool.oldest, pool.shards) == (0, 0, None, "")


def test_a_state_without_a_runner_has_no_column_but_healthy_and_lost():
    assert overview(fleet(*WELL), NOW).columns == ("healthy", "invalidated")
    assert overview(fleet(*WELL, suspect(healthy(9, "z"))), NOW).columns == ("healthy", "suspect", "invalidated")


def test_a_healthy_fleet_has_no_incident_and_nothing_to_resume():
    page = overview(fleet(*WELL), NOW)
    assert (page.is_well, page.others, page.can_resume) == (True, (), False)
    assert (page.headline.severity, page.headline.sentence) == (Severity.GOOD, "All 2 runners are healthy.")


# The list of runners.


def line(number, state="healthy", pool=POOL, labels=("x64",), since=NOW):
    return RunnerLine(number, f"r-{number:03}", pool, state, "Online", since, labels, busy=False)


@pytest.mark.parametrize(
    ("changes", "shown"),
    [({}, "waiting (limit)"), ({"org_pause": PAUSE}, "waiting (pause)")],
    ids=["its turn", "paused"],
)
def test_a_lost_runner_is_listed_with_what_its_replacement_waits_for(changes, shown):
    runners = [healthy(1, "a"), invalidated(2, "b")]
    known = lines(fleet(*runners, **changes).view, runners, NOW)
    page = runners_page(known, RunnerQuery(), NOW)
    assert [(each.id, each.next) for each in page.rows] == [(2, shown), (1, "")]


MIXED = [
    line(1),
    line(2, "invalidated", since=NOW - 9),
    line(3, "healed"),
    line(4, "retired"),
    line(5, "offline", "gpu", ("GPU",), NOW - 99),
]


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        (RunnerQuery(), [2, 5, 1]),
        (RunnerQuery(state="all"), [2, 5, 1, 3, 4]),
        (RunnerQuery(state="healed"), [3]),
        (RunnerQuery(pool="gpu"), [5]),
        (RunnerQuery(label="gpu"), [5]),
        (RunnerQuery(label="gp"), []),
        (RunnerQuery(text="R-00", sort="name"), [1, 2, 5]),
        (RunnerQuery(text="5"), [5]),
        (RunnerQuery(sort="name", descending=True), [5, 2, 1]),
        (RunnerQuery(sort="since"), [1, 2, 5]),
        (RunnerQuery(sort="pool"), [5, 1, 2]),
        (RunnerQuery(descending=True), [1, 5, 2]),
    ],
)
def test_runners_are_filtered_and_sorted(query, ids):
    assert [each.id for each in runners_page(MIXED, query, NOW).rows] == ids


@pytest.mark.parametrize(
    ("page", "shown", "previous", "following"),
    [(1, (1, 100), "", "?page=2"), (3, (201, 201), "?page=2", ""), (99, (201, 201), "?page=2", "")],
)
def test_a_list_is_paged_and_a_page_beyond_the_end_is_the_last_page(page, shown, previous, following):
    found = runners_page([line(each) for each in range(2 * PAGE_SIZE + 1)], RunnerQuery(page=page), NOW)
    assert ((found.paging.first, found.paging.last), found.paging.previous, found.paging.following) == (
        shown,
        previous,
        following,
    )
    assert (found.paging.matching, found.paging.pages) == (201, 3)


@pytest.mark.parametrize(
    "given",
    [{}, {"state": "", "sort": "", "order": "x", "page": "0x1"}, {"page": "-1"}, {"page": "٣"}, {"page": "9" * 8}],
)
def test_invalid_pages_and_empty_values_are_replaced_by_defaults(given):
    assert read_query(given) == RunnerQuery()


@pytest.mark.parametrize(
    ("given", "begin"),
    [
        ({"state": "offlne"}, "This page has no state=offlne; did you mean offline? known are all, healed, "),
        ({"sort": "x"}, "This page has no sort=x; known are name, pool, since, state."),
        ({"state": "y" * 201}, f"This page has no state={'y' * 200}; known are "),
    ],
    ids=["state", "sort", "long"],
)
def test_an_unknown_filter_is_refused_with_the_known_ones(given, begin):
    with pytest.raises(UnknownValueError, match=f"^{re.escape(begin)}"):
        read_query(given)


def test_lost_is_another_name_of_invalidated():
    assert read_query({"state": "lost"}) == RunnerQuery("invalidated")


@pytest.mark.parametrize(
    ("pool", "note"),
    [
        ("", ""),
        ("linux", ""),
        ("linxu", "This page has no pool=linxu; did you mean linux? known are linux, mac."),
    ],
)
def test_a_list_says_which_pools_it_has_where_the_selected_one_is_none_of_them(pool, note):
    assert pool_note(pool, ["linux", "mac"]) == note


def test_a_query_round_trips_through_its_address():
    query = RunnerQuery("offline", "a b", "x&y", "é", "since", descending=True, page=7)
    from urllib.parse import parse_qsl

    assert read_query(dict(parse_qsl(query.address()[1:]))) == query
    assert RunnerQuery().address() == "?"


def test_a_healed_runner_is_labelled_healed_and_an_unregistered_one_is_omitted():
    view = OrgView("acme", (), Limits(), SWEPT)
    hosted = healthy(5, "e")._replace(registered=False)
    assert [(each.id, each.state) for each in lines(view, [*LOST, healed(4, NOW), hosted], NOW)] == [
        (1, "healthy"),
        (2, "healthy"),
        (3, "invalidated"),
        (4, "healed"),
    ]


# One runner.

VIEW = OrgView("acme", (), Limits(), SWEPT)
JOB = Job(70, "running", (), "acme/api", NOW - 40, 1, "a", NOW - 30)
DEATH = Death("a", "pod-a", "node-1", NOW - 5, 137, 9, "OOMKilled", Cause.HOST_OOM, "Add memory.", runner_id=1)
DEATH = DEATH._replace(job=DeadJob(70, "acme/api"), runner_log=("a line",))
AT_WORK = WELL[0]._replace(job_id=70, job_started_at=NOW - 30)


def page_of(evidence, others=(), job=None, death=None, reads=True, view=VIEW, manages=True):
    return runner_page(
        view, evidence, others, job, death, lambda _: reads, NOW, manages=manages, reads_node_logs=manages
    )


def test_evidence_and_death_are_one_time_line_the_latest_first():
    page = page_of(AT_WORK, job=JOB, death=DEATH)
    assert [(each.source, each.text) for each in page.entries] == [
        ("list", "Online in a complete list of 2"),
        ("death", "Its container ended: host-oom"),
        ("delivery", "Took job 70"),
        ("list", "First seen"),
    ]
    assert (page.job.repository, page.death.log) == ("acme/api", ("a line",))
    assert "a line" in page.raw


@pytest.mark.parametrize(
    ("of", "text"),
    [(412, "Absent from a complete list of 412"), (None, "Absent from a list that changed while it was read")],
)
def test_an_absence_from_a_complete_list_reads_differently_from_one_with_page_churn(of, text):
    absent = AT_WORK._replace(listed=False, absent_since=NOW - 10, absent_of=of)
    assert text in [each.text for each in page_of(absent).entries]


def test_a_death_without_a_pod_mentions_no_container():
    page = page_of(AT_WORK, job=JOB, death=DEATH._replace(pod=""))
    assert [each.text for each in page.entries if each.source == "death"] == ["It died: host-oom"]


def test_a_job_of_a_repository_that_the_visitor_may_not_read_is_hidden_with_its_number():
    page = page_of(AT_WORK, job=JOB, death=DEATH, reads=False)
    assert (page.job.id, page.job.repository, page.job.hidden) == (None, "", True)
    assert [each.text for each in page.entries if "job" in each.text] == ["Took a job"]
    assert "job 70" not in page.raw
    assert (page.death.hidden, page.death.log) == (True, ())
    assert "a line" not in page.raw
    assert "acme/api" not in page.raw


@pytest.mark.parametrize(
    "death",
    [DEATH._replace(runner_id=2), DEATH._replace(runner_id=None, at=NOW - 600 - 60.1)],
    ids=["of another id", "before this runner was first seen"],
)
def test_the_death_of_an_earlier_runner_with_the_same_name_is_not_shown(death):
    assert page_of(WELL[0], death=death).death is None


@pytest.mark.parametrize(
    ("evidence", "view", "stage", "words"),
    [
        (WELL[0], VIEW, "none", ""),
        (LOST[2], VIEW, "waiting", "It waits for its turn with the next sweep, which grants a limited number."),
        (
            LOST[2],
            OrgView("acme", (), Limits(), SWEPT, {}, {"*": PAUSE}),
            "waiting",
            "Remediation is paused by mona: network.",
        ),
        (
            replaced(LOST[2], NOW - 10),
            VIEW,
            "requested",
            "No successor is online yet.",
        ),
    ],
)
def test_a_runner_has_what_happens_next_to_it(evidence, view, stage, words):
    page = page_of(evidence, view=view)
    assert (page.replacement_stage, page.replacement) == (stage, words)


def test_the_number_of_a_job_that_holds_a_replacement_is_hidden_with_the_job():
    absent = AT_WORK._replace(listed=False, absent_since=NOW - 10, absent_of=2, first_404_at=NOW - 5)
    assert page_of(absent, job=JOB).replacement == "Job 70 runs on it by the last report."
    assert page_of(absent, job=JOB, reads=False).replacement == "A job runs on it by the last report."


def test_successors_are_those_of_the_pool_that_registered_soon_after():
    healed = replaced(invalidated(4, "d"), NOW - 1000)
    times = {5: -1000.001, 6: -1000, 7: -1000 + SUCCESSOR_SECONDS, 8: -999.999 + SUCCESSOR_SECONDS}
    others = [healthy(each, f"n-{each}")._replace(first_seen=NOW + at) for each, at in times.items()]
    other_pool = healthy(9, "n-9")._replace(first_seen=NOW - 999, custom_labels=("gpu",), labels=("gpu",))
    assert [each.id for each in page_of(healed, [*others, other_pool]).successors] == [6, 7]


# GitHub and the system.


def test_the_github_page_shows_the_remaining_budget_and_missing_permissions():
    known = fleet(
        survey=Survey(NOW - 3, 2, blind=((NOW - 7200, NOW - 3600),)),
        attempt=NextAttempt("", None, NOW + 30),
        settings_page="https://github.com/organizations/acme-inc/settings/installations/7",
    )
    installation = Installation(7, "acme", 1, {**NEEDED, "checks": "read"}, login="acme-inc")
    page = github_page(known, installation, Allowance(5000, 600, 1800.0), BudgetLimits(0.5), 60, NOW)
    assert (page.limit, page.used, page.usable, page.left, page.share) == (5000, 600, 2500, 1900, 50)
    assert (page.resets, page.held, page.next_at.text) == ("in 30 min", "", "in 30 s")
    assert (page.missing, page.login) == (("checks: write",), "acme-inc")
    assert page.settings == known.settings_page
    assert [(each.length, each.times, each.end.text) for each in page.blind] == [
        ("1 h", f"from {time_of(NOW - 7200, NOW)} to {time_of(NOW - 3600, NOW)}", "1 h ago")
    ]


def test_the_github_page_says_while_it_is_so_why_github_cannot_be_read_and_that_it_goes_on():
    failing = Survey(NOW - 50, 2, failing_since=NOW - 40, failure="GitHubUnavailable")
    known = fleet(survey=failing, attempt=NextAttempt("GitHubUnavailable", NOW - 40, NOW + 5))
    page = github_page(known, Installation(7, "acme", 1, NEEDED), Allowance(5000, 600, 1800.0), BudgetLimits(), 60, NOW)
    (why,) = page.blind_now
    assert why.sentence == overview(known, NOW).headline.sentence
    assert why.sentence.startswith("Runners cannot be read: GitHub does not answer, or answers with errors")
    since = f"from {time_of(NOW - 50, NOW)} on"
    assert [(each.length, each.times, each.end) for each in page.blind] == [("50 s", since, None)], "the last list"
    assert page.meaning == "GitHub does not answer, or answers with errors."
    well = github_page(fleet(), Installation(7, "acme", 1, NEEDED), Allowance(5000, 0, 0.0), BudgetLimits(), 60, NOW)
    assert (well.blind_now, well.blind, well.meaning, well.fix) == ((), (), "", ())


def test_the_github_page_shows_time_before_a_late_list_among_the_time_without_one():
    known = fleet(survey=Survey(NOW, 2, blind=((NOW - 900, NOW - 500),), gaps=((NOW - 300, NOW - 226),)))
    page = github_page(known, Installation(7, "acme", 1, NEEDED), Allowance(5000, 0, 0.0), BudgetLimits(), 60, NOW)
    assert [(each.length, each.is_covered) for each in page.blind] == [("1 min 14 s", True), ("6 min 40 s", False)]


LETTER = DeadLetter("1-1", "guid", "ping", "why", NOW - 60)
LOAD = Load(2, {"urgent": 1}, 0)


@pytest.mark.parametrize(
    ("load", "clocks", "watches", "lag", "dead", "good", "sentence"),
    [
        (LOAD, 1, None, 0, 0, True, "All roles are alive."),
        (LOAD, 1, 1, 10_000, 0, True, "All roles are alive."),
        (LOAD, 1, 0, 0, 0, False, "No watch is alive."),
        (LOAD._replace(silent=1), 1, 1, 0, 0, True, "All roles are alive."),
        (Load(0, {}, 0), 0, None, 0, 0, False, "No worker and no clock is alive."),
        (Load(0, {}, 0, silent=2), 1, None, 0, 0, False, "No worker is alive."),
        (LOAD, 1, None, 10_001, 0, False, "10,001 deliveries wait in the inbox."),
        (LOAD, 1, None, 0, 1, False, "All roles are alive; 1 delivery was given up."),
    ],
)
def test_the_state_of_the_system_is_summarized_in_one_sentence(load, clocks, watches, lag, dead, good, sentence):
    page = system_page(load, clocks, watches, lag, dead, [LETTER] * dead, [], NOW)
    assert (page.good, page.sentence) == (good, sentence)


@pytest.mark.parametrize(
    ("load", "note"),
    [
        (LOAD, ""),
        (LOAD._replace(silent=1), "1 worker sent no heartbeat for 20 s: hung or killed."),
        (Load(0, {}, 0), "No worker is alive: start `ghapp worker`."),
        (
            Load(0, {}, 0, silent=2),
            "No worker is alive: start `ghapp worker`. 2 workers sent no heartbeat for 20 s: hung or killed.",
        ),
    ],
)
def test_a_worker_that_hangs_is_named(load, note):
    assert system_page(load, 1, None, 0, 0, [], [], NOW).roles[0].note == note


def test_dead_letters_are_latest_first_bounded_and_shown_only_to_permitted_visitors():
    letters = [LETTER._replace(id=f"{each}-1") for each in range(60)]
    page = system_page(LOAD, 1, None, 0, 60, letters, [], NOW)
    assert (page.letters[0].id, len(page.letters), page.more_letters) == ("59-1", 50, 10)
    hidden = system_page(LOAD, 1, None, 0, 60, None, [], NOW)
    assert (hidden.letters, hidden.dead) == (None, 60)


def test_an_entry_of_the_audit_log_has_its_author_action_and_origin():
    entry = AuditEntry(NOW - 60, "mona", "page", "pause", "*", "network", "paused", "192.0.2.7")
    (shown,) = system_page(LOAD, 1, None, 0, 0, [], [entry], NOW).entries
    assert (shown.at.text, *shown[1:]) == (
        "1 min ago", "mona", "page", "pause all pools", "network", "paused", "192.0.2.7", time_of(NOW - 60, NOW), "", False,
    )  # fmt: skip


def test_the_addresses_in_the_audit_log_are_for_managers_alone():
    entry = AuditEntry(NOW - 60, "mona", "page", "pause", "*", "network", "paused", "192.0.2.7")
    assert [audit_lines([entry], NOW, has_addresses=has)[0].address for has in (True, False)] == ["192.0.2.7", ""]


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        ("nothing-to-resume", "nothing to resume"),
        ("found 2 suspects in linux-4vcpu", "found 2 suspects in linux-4vcpu"),
    ],
)
def test_the_audit_log_shows_results_in_words(result, shown):
    entry = AuditEntry(NOW - 60, "mona", "page", "resume", "*", "", result)
    assert audit_lines([entry], NOW, has_addresses=True)[0].result == shown


FOUND = "found no suspect, 3 calls; "


@pytest.mark.parametrize(
    ("result", "detail", "shown", "more"),
    [
        ("resumed", "ended the pause", "resumed; ended the pause", ""),
        ("resumed", "x" * 111, f"resumed; {'x' * 111}", ""),
        ("resumed", "x" * 112, f"resumed; {'x' * 112}", ""),
        ("resumed", f"{'x' * 112}; ended y; ended z", f"resumed; {'x' * 112}", "ended y; ended z"),
        (f"found 1 suspect, 4 calls; {'y' * 99}; z", "", "found 1 suspect, 4 calls", f"{'y' * 99}; z"),
        ("y" * 121, "", "y" * 121, ""),
        (
            "found no suspect, 3 calls; 1 runner remains lost: 1 of gpu requested",
            "",
            f"{FOUND}1 runner remains lost",
            "1 of gpu requested",
        ),
        (
            f"found no suspect, 3 calls; 1,034 runners remain lost: {'z' * 120}",
            "",
            f"{FOUND}1,034 runners remain lost",
            "z" * 120,
        ),
    ],
    ids=[
        "short",
        "as long as shown",
        "one pause",
        "several pauses",
        "of several parts",
        "one part",
        "a loss",
        "losses",
    ],
)
def test_the_audit_log_folds_what_follows_the_first_part_of_a_long_result(result, detail, shown, more):
    entry = AuditEntry(NOW - 60, "mona", "page", "resume", "*", "", result, detail=detail)
    (line,) = audit_lines([entry], NOW, has_addresses=True)
    assert (line.result, line.more) == (shown, more)


@pytest.mark.parametrize(
    ("result", "shown", "has_failed"),
    [
        ("failed: GitHub answers 502", "GitHub answers 502", True),
        ("already running: failed: GitHub answers 502", "already running: GitHub answers 502", True),
        ("found no suspect, 1 call", "found no suspect, 1 call", False),
        ("resumed; failed: no", "resumed; failed: no", False),
    ],
)
def test_the_audit_log_marks_what_failed(result, shown, has_failed):
    (line,) = audit_lines([AuditEntry(NOW, "mona", "page", "sweep", "", "", result)], NOW, has_addresses=True)
    assert (line.result, line.has_failed) == (shown, has_failed)


@pytest.mark.parametrize("until", [None, NOW + 600])
def test_the_audit_log_shows_when_a_pause_ends_by_itself(until):
    entry = AuditEntry(NOW - 60, "mona", "page", "pause", "*", "network", "paused", until=until)
    (line,) = audit_lines([entry], NOW, has_addresses=True)
    assert line.result == ("paused" if until is None else f"paused until {time_of(until)}")


@pytest.mark.parametrize(
    ("text", "linked"),
    [
        ("found no suspect, 1 call", []),
        ("found 1 suspect (a), 1 call", ["a"]),
        ("found 7 suspects (a, b-1, c.d, e_f, g, 2 more), 1 call", ["a", "b-1", "c.d", "e_f", "g"]),
        ("found 1 suspect (a) and 2 runners that left the list and are being checked (b, c), 1 call", ["a", "b", "c"]),
        ("found 1 runner that left the list and is being checked (a b, <c>), 1 call", []),
        ("found no suspect, 1 call; 1 runner remains lost: 1 of x waiting (why, not)", ["1 runner remains lost"]),
        ("paused (a, b)", []),
    ],
)
def test_the_runners_of_an_outcome_are_linked_and_its_text_stays(text, linked):
    parts = linked_outcome(text, "base")
    assert "".join(each.text for each in parts) == text
    assert [each.text for each in parts if each.address] == linked
    assert not any(each.address for each in linked_outcome(text, ""))
