"""What is wrong now: each kind of headline, their order, and what each says to do."""

from dataclasses import replace
from io import StringIO
from types import SimpleNamespace

import pytest
from rich.console import Console

from ghapp.deaths.cluster_summary import StaleNamespace
from ghapp.gate.gate_states import GateState
from ghapp.installations.pool_matching import ALL_POOLS as WHOLE
from ghapp.pods.blockers import Blocker
from ghapp.pods.degraded_sources import DegradedSource
from ghapp.pods.phantom_kinds import ADVICE, KNOWN_SOON, Phantom, PhantomKind, PhantomReason, key
from ghapp.remediation.fuse import Fuse, FuseLimits, FuseReason, Position
from ghapp.report.fleet import by_pool
from ghapp.report.fleet_report import report_on
from ghapp.report.headline import HeadlineKind, Severity
from ghapp.report.headlines import MOST_PER_KIND, headlines, title_of
from ghapp.report.links import PageLinks
from ghapp.report.loss_headlines import BURST_CONFIRMATIONS
from ghapp.report.overview import headline_documents
from ghapp.runners.deletion_progress import Deletion
from ghapp.runners.next_attempt import BLINDNESS, NEEDS_AN_OWNER, NOT_SCHEDULED, OVERDUE, NextAttempt
from ghapp.runners.verdict import Limits, Reason
from ghapp.terminal.tables import headlines_text
from ghapp.versions.lifetime import DAY, NOTICE_SECONDS, WARNING_SECONDS, EndDates, VersionLimits
from ghapp.web.pages.views.overview import overview
from ghapp.wording import DOCS, clock_time, time_of
from ghapp.workflow_jobs.demand import PoolDemand, UnservedJob
from ghapp.workflow_jobs.job import Job
from ghapp.workflow_jobs.reason import QueueReason
from tests.report.fleets import fleet_of, healed, requested
from tests.rules.builders import LONG_AGO, MICROSECOND, NOW, lost, online, present, proving, survey, suspect

POOL = "linux-4vcpu"
PAUSE = SimpleNamespace(who="mona", why="network maintenance", at=LONG_AGO, until=None)
ENDING = SimpleNamespace(**{**vars(PAUSE), "until": NOW + 600})
RUNS = {"job_id": 7, "job_started_at": NOW - 60, "removed_at": NOW - 30}
STOPPED = proving(position=Position.STOPPED, reason=FuseReason.BATCH_NEVER_ONLINE, stopped_at=NOW - 30)
FAILING = survey(failing_since=NOW - 40, failure="PermissionMissing")


def found(*runners, **changes):
    fleet = fleet_of(*runners, **changes)
    return headlines(fleet, by_pool(fleet, NOW), NOW)


def waiting(number, reason=QueueReason.NO_RUNNER_WITH_LABELS, pool="gpu", meant=""):
    return UnservedJob(Job(number, "queued", ("gpu",), "acme/api", NOW - 400 - number), reason, pool, meant)


def began(at):
    """The evidence of a loss that began then."""
    return {"absent_since": at, "first_404_at": at, "confirmed_at": at}


PHANTOM = Phantom(PhantomKind.FAILED_OBJECT, "runner-x1", PhantomReason.FAILED_COUNTS_AS_CAPACITY, "Delete it.")
FAILED_GATE = GateState("a" * 40, NOW - 4000, failed_at=NOW - 60)
EVERYTHING = {
    "survey": FAILING,
    "fuses": {"gpu": STOPPED},
    "pauses": {"arm": PAUSE},
    "unserved": [waiting(1)],
    "slow": [waiting(2, QueueReason.ALL_BUSY, POOL)],
    "gates": {"rollout/pink": FAILED_GATE},
    "phantoms": [PHANTOM],
    "degraded_sources": [DegradedSource("pods in runners", "RBAC lacks watch on pods")],
    "end_dates": {
        "2.335.1": EndDates(NOW, NOW - DAY, is_known=True),
        "2.336.0": EndDates(NOW, NOW + DAY, is_known=True),
    },
}


def test_all_that_is_wrong_is_listed_in_one_order_and_the_worst_is_the_headline():
    old = [online(5, version="2.335.1"), online(6, version="2.336.0")]
    runners = (online(1), lost(2), suspect(3, absent_since=NOW - 301), present(4), *old)
    not_here = (HeadlineKind.WELL, HeadlineKind.MASS_SUSPECT)  # while GitHub cannot be read, nothing goes missing
    assert [each.kind for each in found(*runners, **EVERYTHING)] == [
        each for each in HeadlineKind if each not in not_here
    ]


@pytest.mark.parametrize(
    ("runners", "sentence"),
    [
        ([], "No runner is registered."),
        ([online()], "The only runner is healthy."),
        ([online(1), online(2)], "All 2 runners are healthy."),
        (
            [online(1), online(2, first_seen=NOW - 1, was_online=False)],
            "All 2 runners are healthy, 1 of them starting.",
        ),
        ([online(1), online(2), healed(3, NOW)], "All 2 runners are healthy."),
        ([online(1), suspect(2)], "1 runner is healthy; 1 left GitHub's list and is being checked."),
        ([suspect(2)], "No runner is listed; 1 left GitHub's list and is being checked."),
        (
            [*map(online, range(100)), *map(suspect, range(100, 104))],
            "100 runners are healthy; 4 left GitHub's list and are being checked.",
        ),
        (
            [
                online(1),
                *(suspect(number, first_seen=NOW - 60, first_404_at=None, absent_since=NOW - 5) for number in (2, 3)),
            ],
            "1 of 3 runners is healthy; 2 are new and not in GitHub's list, as runners that start may be.",
        ),
        ([online(1), requested(2, NOW - 3901)], "The only runner is healthy."),
    ],
)
def test_a_fleet_without_anything_wrong_says_so_and_a_short_suspicion_is_nothing(runners, sentence):
    (only,) = found(*runners)
    assert (only.kind, only.severity, only.sentence, only.step) == (HeadlineKind.WELL, Severity.GOOD, sentence, "")


# Blindness.


@pytest.mark.parametrize("reason", [*BLINDNESS])
def test_each_reason_of_blindness_says_what_it_means_and_what_to_do(reason):
    (headline,) = found(online(), survey=survey(failing_since=NOW - 40, failure=reason))
    assert headline.sentence.startswith(f"Runners cannot be read: {BLINDNESS[reason].meaning} ({reason}); ")
    assert headline.step == BLINDNESS[reason].fix.format(org="acme")
    assert (headline.since, headline.page) == (NOW - 40, "github")
    assert headline.command in ("", "ghapp doctor")


def test_blindness_begins_with_the_last_complete_list():
    (headline,) = found(online(), survey=survey(swept_at=NOW - 50, failing_since=NOW - 40, failure="RateLimited"))
    assert headline.since == NOW - 50


def test_what_only_the_author_of_a_workflow_can_repair_comes_after_what_the_platform_has_to():
    jobs = [waiting(1, pool="secret-project", meant="gpu")]
    kinds = [
        each.kind for each in found(online(), unserved=jobs, gates={"rollout/pink": FAILED_GATE}, phantoms=[PHANTOM])
    ]
    assert kinds == [HeadlineKind.GATE, HeadlineKind.PHANTOM, HeadlineKind.UNSERVED]
    jobs = [*jobs, waiting(2, pool="secret-project")]
    assert found(online(), unserved=jobs, gates={"rollout/pink": FAILED_GATE})[0].kind is HeadlineKind.UNSERVED


def test_every_failure_of_a_sweep_is_explained():
    of_lists = list(Reason)[list(Reason).index(Reason.GITHUB_UNAVAILABLE) :]
    assert set(BLINDNESS) == {*of_lists, OVERDUE, NOT_SCHEDULED}


@pytest.mark.parametrize(("age", "severity"), [(300, Severity.ATTENTION), (300 + MICROSECOND, Severity.CRITICAL)])
def test_blindness_is_critical_once_observations_are_too_old(age, severity):
    blind = replace(FAILING, swept_at=NOW - age, failure="GitHubUnavailable")
    assert found(online(), survey=blind)[0].severity is severity


def test_a_person_s_account_is_nothing_critical():
    attempt = NextAttempt(Reason.PERSONAL_ACCOUNT)
    (headline,) = found(survey=survey(swept_at=None), attempt=attempt)
    assert (headline.kind, headline.severity) == (HeadlineKind.BLIND, Severity.ATTENTION)
    step, _, see = headline.step.partition("; see ")
    assert (step, see) == ('add them to the configuration, as [[scopes]] repositories = "acme/*"', f"{DOCS}/scopes.md")


@pytest.mark.parametrize("failure", sorted(NEEDS_AN_OWNER))
def test_what_only_an_owner_can_end_is_critical_at_once(failure):
    assert found(online(), survey=replace(FAILING, failure=failure))[0].severity is Severity.CRITICAL


@pytest.mark.parametrize(
    ("known", "attempt", "kind"),
    [
        (survey(swept_at=None), NextAttempt(), HeadlineKind.BLIND),
        (survey(), NextAttempt(Reason.RATE_LIMITED, NOW - 9, NOW + 60), HeadlineKind.WELL),
        (survey(swept_at=NOW - 130), NextAttempt(OVERDUE, NOW - 70, NOW - 70), HeadlineKind.BLIND),
        (survey(), NextAttempt(NOT_SCHEDULED), HeadlineKind.BLIND),
    ],
    ids=["before the first list", "a turn that is put off", "a sweep that did not run", "none is scheduled"],
)
def test_blindness_begins_when_lists_fail_or_are_too_old(known, attempt, kind):
    assert found(online(), survey=known, attempt=attempt)[0].kind is kind


# Losses.

FORBIDDEN = Deletion(waits_for=Blocker.CLUSTER_FORBIDDEN, waiting_since=LONG_AGO)
LOSSES = {
    "next": ([lost(2)], {}, "its replacement is the next one", "", Severity.ATTENTION),
    "granted": ([lost(2, granted_at=NOW)], {}, "replacement is under way", "", Severity.ATTENTION),
    "requested": (
        [requested(2, NOW)],
        {},
        "replacement requested; 0 of 1 successor online",
        "",
        Severity.ATTENTION,
    ),
    "some online": (
        [requested(2, NOW - 9, confirmed_at=NOW - 60), healed(3, NOW, confirmed_at=NOW - 60), lost(4, granted_at=NOW)],
        {},
        "replacement requested for 1; 1 being replaced; 1 of 3 successors online",
        "",
        Severity.ATTENTION,
    ),
    "dry-run": (
        [lost(2)],
        {"mode": "dry-run"},
        "nothing is replaced: remediation is in dry-run",
        "",
        Severity.CRITICAL,
    ),
    "paused": (
        [lost(2)],
        {"org_pause": PAUSE},
        "remediation is paused by mona: network maintenance",
        "ghapp resume acme",
        Severity.CRITICAL,
    ),
    "its pool paused": (
        [lost(2)],
        {"pauses": {POOL: PAUSE}},
        "remediation is paused by mona: network maintenance",
        f"ghapp resume acme --pool {POOL}",
        Severity.CRITICAL,
    ),
    "stopped": (
        [lost(2), requested(3, NOW)],
        {"fuses": {POOL: STOPPED}},
        "replacement requested for 1; 1 waits, the fuse is stopped: no runner came online after the last batch, beyond the pool's own newcomers; 0 of 2",
        f"ghapp resume acme --pool {POOL}",
        Severity.CRITICAL,
    ),
    "all stopped": (
        [lost(2)],
        {"fuses": {WHOLE: STOPPED}},
        "the fuse of all pools is stopped: no runner came online after the last batch, beyond the pool's own newcomers",
        "ghapp resume acme",
        Severity.CRITICAL,
    ),
    "paused until a time": (
        [lost(2)],
        {"org_pause": ENDING},
        "remediation is paused by mona: network maintenance",
        "ghapp resume acme",
        Severity.ATTENTION,
    ),
    "both paused": (
        [lost(2)],
        {"org_pause": PAUSE, "pauses": {POOL: PAUSE}},
        "remediation is paused by mona: network maintenance",
        "ghapp resume acme",
        Severity.CRITICAL,
    ),
    "stopped, and all was requested": (
        [lost(2, granted_at=NOW - 9, removed_at=NOW - 8)],
        {"fuses": {POOL: replace(STOPPED, reason=FuseReason.REQUEST_NOT_ACCEPTED)}},
        "replacement is under way; the fuse of linux-4vcpu is stopped: no request of the last batch was accepted",
        f"ghapp resume acme --pool {POOL}",
        Severity.CRITICAL,
    ),
    "removed for being offline": (
        [suspect(2, granted_at=NOW - 9, removed_at=NOW - 8)],
        {},
        "1 of 2 runners of linux-4vcpu is lost: replacement is under way",
        "",
        Severity.ATTENTION,
    ),
    "for several reasons": (
        [lost(2, granted_at=NOW), lost(3, **RUNS), lost(4, **RUNS), lost(5, confirmed_at=NOW - 1)],
        {},
        "1 being replaced; 2 wait, jobs run on them by the last reports; 1 waits, it waits for its turn",
        "",
        Severity.ATTENTION,
    ),
    "proving": (
        [lost(2)],
        {"fuses": {POOL: proving(tripped_for=FuseReason.MASS_LOSS, reason=FuseReason.BATCH_ONLINE)}},
        "the fuse is proving (too many runners were lost at once): 3 at a time, then more",
        "",
        Severity.ATTENTION,
    ),
    "forbidden": (
        [lost(2, deletion=FORBIDDEN), lost(3)],
        {},
        "2 wait, RBAC lacks a verb; `ghapp doctor` names it (ClusterForbidden)",
        "ghapp doctor",
        Severity.CRITICAL,
    ),
}


@pytest.mark.parametrize(("pool", "proof"), [(POOL, "two thirds"), (WHOLE, "nine tenths")])
def test_the_step_of_a_proving_fuse_says_how_many_successors_it_waits_for(pool, proof):
    step = found(lost(2), fuses={pool: proving()})[0].step
    assert step.startswith(
        f"wait for about 1 more batch: the next batch follows when {proof} of this one's successors are online, as far as they can be "
        "distinguished from the pool's other new runners; 5 min after its last request"
    )


@pytest.mark.parametrize(
    ("fuses", "batches"),
    [
        ({POOL: proving(since=NOW - 90, batch=3, batch_at=NOW - 90)}, "about 2 more batches"),
        ({POOL: proving(since=NOW - 90, batch=6, batch_at=NOW - 30)}, "about 1 more batch, until about {3}"),
        (
            {POOL: proving(since=NOW - 90, batch=6, batch_at=NOW), WHOLE: proving(since=NOW - 90, batch_at=NOW - 30)},
            "about 2 more batches",
        ),
        (
            {
                POOL: proving(since=NOW - 90, batch=6, batch_at=NOW - 30),
                WHOLE: proving(since=NOW - 180, batch=6, batch_at=NOW - 60),
            },
            "about 1 more batch, until about {6}",
        ),
        ({POOL: proving(since=NOW - 330, batch=6, batch_at=NOW - 300)}, "about 1 more batch"),
    ],
    ids=["the first batch has no pace", "the second one has", "one of both has none", "the slower one", "a late batch"],
)
def test_a_mass_loss_estimates_its_end_by_the_slower_fuse(fuses, batches):
    """Of 12 that wait, batches of 6 and 12 replace all, as does one of 12."""
    step = found(online(99), *map(lost, range(1, 13)), fuses=fuses)[0].step
    at = [clock_time(NOW + 30 * count) for count in range(7)]
    expected = batches.format(*at) + (" at the pace so far" if "until" in batches else "")
    assert step.startswith(f"wait for {expected}: the next batch follows when ")


@pytest.mark.parametrize(("runners", "changes", "progress", "command", "severity"), LOSSES.values(), ids=LOSSES)
def test_a_loss_says_how_far_its_replacement_is_and_what_to_do(runners, changes, progress, command, severity):
    headline = found(online(1), *runners, **changes)[0]
    assert (headline.kind, headline.pool, headline.severity) == (HeadlineKind.LOST, POOL, severity)
    assert progress.removeprefix("2 wait, ") in headline.sentence
    assert headline.command == command
    assert headline.step
    assert headline.page == f"runners?pool={POOL}&state=invalidated"


@pytest.mark.parametrize(("waited", "is_named"), [(300, False), (300 + MICROSECOND, True)])
def test_a_controller_that_accepts_and_creates_nothing_is_named(waited, is_named):
    headline = found(online(1), requested(2, NOW - waited))[0]
    assert ("accepted the requests, and no runner came online" in headline.step) is is_named


def test_a_controller_of_which_most_requests_have_successors_is_not_blamed():
    late = requested(2, NOW - 301, confirmed_at=NOW - 400)
    headline = found(online(1), late, healed(3, NOW, confirmed_at=NOW - 360))[0]
    assert headline.step.startswith("wait: 1 request of more than 5 min ago has no successor yet: late, or hidden")
    more = requested(4, NOW - 301, confirmed_at=NOW - 400)
    headline = found(online(1), late, more, healed(3, NOW, confirmed_at=NOW - 360))[0]
    assert "accepted the requests, and no runner came online" in headline.step


@pytest.mark.parametrize(
    ("others", "kinds"),
    [
        ([], [HeadlineKind.PHANTOM, HeadlineKind.LOST, HeadlineKind.PAUSED]),
        ([lost(5)], [HeadlineKind.LOST, HeadlineKind.PHANTOM, HeadlineKind.PAUSED]),
        ([requested(5, NOW - 60)], [HeadlineKind.LOST, HeadlineKind.PHANTOM, HeadlineKind.PAUSED]),
        (
            [requested(5, NOW - 302), requested(6, NOW - 303)],
            [HeadlineKind.LOST, HeadlineKind.PHANTOM, HeadlineKind.PAUSED],
        ),
    ],
    ids=["only late ones", "another one waits", "another request is young", "the controller is blamed"],
)
def test_what_is_left_of_a_loss_and_needs_no_person_is_below_what_needs_one(others, kinds):
    late = requested(2, NOW - 301, confirmed_at=NOW - 400)
    known = [online(1), late, healed(3, NOW, confirmed_at=NOW - 360), *others]
    assert [each.kind for each in found(*known, phantoms=[PHANTOM], pauses={"arm": PAUSE})] == kinds


@pytest.mark.parametrize(
    ("fuse", "step"),
    [
        ({"batch_at": NOW - 400}, "find out why the controller"),
        ({"batch_at": NOW - 400, "reason": FuseReason.BATCH_ONLINE}, "find out why the controller"),
        ({"batch_at": NOW - 100}, "find out why the controller"),
        ({"batch_at": NOW - 100, "reason": FuseReason.BATCH_ONLINE}, "wait for about 1 more batch: the next batch"),
    ],
    ids=["the first batch", "the present one", "another reason", "a proven one"],
)
def test_the_controller_is_not_blamed_for_the_requests_of_a_batch_that_jobs_have_proven(fuse, step):
    late = requested(2, NOW - 301, confirmed_at=NOW - 400)
    headline = found(online(1), late, lost(3), fuses={POOL: proving(**fuse)})[0]
    assert headline.step.startswith(step)
    assert ("; 1 request of more than 5 min ago has no successor yet" in headline.step) is ("wait" in step)


def test_once_a_fuse_is_healed_the_controller_is_not_blamed_for_a_late_successor():
    fuse = Fuse(closed_at=NOW - 100, reason=FuseReason.HEALED)
    headline = found(online(1), requested(2, NOW - 301, **began(NOW - 400)), fuses={POOL: fuse})[0]
    assert headline.step.startswith("wait: 1 request of more than 5 min ago has no successor yet")
    assert headline.since == NOW - 400


def test_a_loss_is_as_old_as_what_waits_now_and_not_as_a_late_successor_of_an_earlier_one():
    earlier = [requested(2, NOW - 301, **began(NOW - 400)), healed(3, NOW - 200, **began(NOW - 400))]
    headline = found(online(1), *earlier, *(lost(number, **began(NOW - 10)) for number in (4, 5)))[0]
    assert headline.since == NOW - 10
    assert f"3 of 4 runners of linux-4vcpu are lost, 2 of them since {clock_time(NOW - 10)}: " in headline.sentence
    assert "successor" not in headline.sentence, "no replacement of the latest ones is requested"


def test_while_a_fuse_proves_the_step_says_until_when():
    fuse = proving(batch=3, allowed=3)
    (headline, *_) = found(online(1), requested(2, NOW, granted_at=NOW), lost(3), fuses={POOL: fuse})
    latest = f"by {clock_time(NOW + 300)} one suffices, and without any the fuse stops"
    assert latest in headline.step


def test_successors_that_are_online_stay_counted_until_all_losses_that_overlap_have_healed():
    """The first ones to be lost heal first: what began with them does not begin later."""
    first = [healed(number, NOW - 40, **began(NOW - 100)) for number in (2, 3)]
    second = healed(4, NOW - 20, **began(NOW - 60))
    headline = found(online(1), *first, second, lost(5, **began(NOW - 30)))[0]
    assert (headline.since, "; 3 of 4 successors online" in headline.sentence) == (NOW - 100, True)


@pytest.mark.parametrize(
    ("healed_at", "counted"),
    [(NOW - 30, (NOW - 100, "; 1 of 2 successors online")), (NOW - 30 - MICROSECOND, (NOW - 30, ""))],
    ids=["as the other one healed", "after it healed"],
)
def test_a_loss_after_the_others_have_healed_is_counted_by_itself(healed_at, counted):
    headline = found(online(1), healed(2, healed_at, **began(NOW - 100)), lost(5, **began(NOW - 30)))[0]
    since, progress = counted
    assert headline.since == since
    assert ("successor" in headline.sentence, progress in headline.sentence) == (bool(progress), True)


PROVE_SECONDS = FuseLimits().prove_seconds
REQUESTED = [requested(2, NOW - 20)]
HEALED_PAIR = [healed(number, NOW - 5) for number in (3, 4)]
SETTLING = "2 of 3 lost runners of linux-4vcpu are replaced, and the successor of 1 is not seen yet"


@pytest.mark.parametrize(
    ("runners", "more", "is_settling"),
    [
        ([*REQUESTED, *HEALED_PAIR], {}, True),
        ([requested(2, NOW - PROVE_SECONDS), *HEALED_PAIR], {}, True),
        ([requested(2, NOW - PROVE_SECONDS - 1), *HEALED_PAIR], {}, False),
        ([*REQUESTED, HEALED_PAIR[0]], {}, False),
        ([*REQUESTED, *HEALED_PAIR, lost(5)], {}, False),
        ([*REQUESTED, *HEALED_PAIR], {"survey": survey(failing_since=NOW - 9, failure="Unauthorized")}, False),
        ([*REQUESTED, *HEALED_PAIR], {"fuses": {POOL: replace(proving(), position=Position.STOPPED)}}, False),
        ([*REQUESTED, *HEALED_PAIR, *(suspect(number) for number in range(10, 15))], {}, False),
    ],
    ids=[
        "two thirds have healed",
        "the last one is expected until now",
        "the last one is late",
        "half of them",
        "another one is not requested",
        "runners cannot be read",
        "the fuse is stopped",
        "more are missing at once",
    ],
)
def test_the_last_successors_of_a_loss_are_a_headline_below_what_waits_for_anybody(runners, more, is_settling):
    headline = next(each for each in found(online(1), *runners, **more) if each.kind is HeadlineKind.LOST)
    assert headline.sentence.startswith(SETTLING) is is_settling
    assert (headline.ranks_as is HeadlineKind.SLOW) is is_settling
    assert not is_settling or headline.step.startswith("nothing to do: it is awaited until ")


def test_jobs_whose_labels_are_misspelt_come_before_the_last_successors():
    jobs = [waiting(1, pool="secret-project", meant="gpu")]
    kinds = [each.kind for each in found(online(1), *REQUESTED, *HEALED_PAIR, unserved=jobs)]
    assert kinds == [HeadlineKind.UNSERVED, HeadlineKind.LOST]


def test_runners_that_are_missing_beside_lost_ones_are_in_the_headline_of_the_loss():
    known = [lost(1), *(suspect(number) for number in range(2, 6)), *(online(number) for number in range(6, 12))]
    losses = [each for each in found(*known) if each.kind in (HeadlineKind.LOST, HeadlineKind.MASS_SUSPECT)]
    (headline,) = losses
    assert "; 4 more are missing, and GitHub is asked for each" in headline.sentence


def test_while_runners_cannot_be_read_nothing_goes_on_by_itself():
    blinded = survey(failing_since=NOW - 9, failure="Unauthorized")
    blind, loss = found(online(1), requested(2, NOW - 5), survey=blinded)[:2]
    assert (blind.kind, loss.step) == (HeadlineKind.BLIND, "wait: successors are seen once runners can be read")


@pytest.mark.parametrize(
    ("others", "deadline"),
    [((), f"; successors are expected by {clock_time(NOW + 295)}"), ((lost(3),), "")],
    ids=["all are requested", "one waits"],
)
def test_successors_are_expected_by_a_time_once_all_are_requested(others, deadline):
    step = found(online(1), requested(2, NOW - 5), *others)[0].step
    assert step == f"nothing to do: replacement goes on by itself{deadline}"


BURST_SECONDS = BURST_CONFIRMATIONS * Limits().confirm_seconds


@pytest.mark.parametrize(
    ("apart", "since", "latest"),
    [
        (BURST_SECONDS, NOW - 60 - BURST_SECONDS, ": "),
        (BURST_SECONDS + MICROSECOND, NOW - 60, f", 2 of them since {clock_time(NOW - 60)}: "),
    ],
    ids=["one burst", "another burst"],
)
def test_a_loss_that_follows_another_one_is_as_old_as_itself(apart, since, latest):
    first = NOW - 60 - apart
    known = [requested(1, NOW - 10, **began(first)), lost(2, **began(NOW - 60)), lost(3, **began(NOW - 60))]
    headline = found(online(9), *known)[0]
    assert headline.since == since
    assert headline.sentence.startswith(f"3 of 4 runners of linux-4vcpu are lost{latest}")


def test_a_loss_that_waits_for_its_request_is_not_younger_because_another_one_follows():
    headline = found(online(9), lost(1, **began(NOW - 6 * 3600)), lost(2, **began(NOW - 60)))[0]
    assert (headline.since, " of them since " in headline.sentence) == (NOW - 6 * 3600, False)


@pytest.mark.parametrize(
    ("last", "goes_on"),
    [(NOW - BURST_SECONDS, True), (NOW - BURST_SECONDS - MICROSECOND, False)],
    ids=["one was lost just now", "none was lost lately"],
)
def test_a_loss_that_goes_on_is_not_below_everything_else_however_many_have_healed(last, goes_on):
    times = [last - 2 * BURST_SECONDS, last - BURST_SECONDS, last - BURST_SECONDS / 2]
    earlier = [healed(number, NOW - 5, **began(at)) for number, at in enumerate(times, 2)]
    headline = found(online(9), *earlier, requested(1, NOW - 20, **began(last)))[0]
    assert (headline.ranks_as is HeadlineKind.SLOW) is not goes_on


def test_the_last_successor_of_an_earlier_loss_does_not_look_like_progress_of_the_latest():
    """Key 1 and then key 2: of the 12 runners 11 were replaced, and of the 40 of 20 seconds ago none."""
    earlier = [requested(1, NOW - 200, **began(NOW - 260)), *(healed(n, NOW - 100, **began(NOW - 260)) for n in (2, 3))]
    latest = [requested(number, NOW - 5, **began(NOW - 20)) for number in (4, 5)]
    headline = found(online(9), *earlier, *latest)[0]
    assert (headline.since, headline.ranks_as) == (NOW - 20, None)
    assert headline.sentence.endswith(": replacement requested; 0 of the latest 2 successors online.")
    headline = found(online(9), *earlier, *(healed(n, NOW - 5, **began(NOW - 20)) for n in (4, 5)))[0]
    assert (headline.since, headline.ranks_as) == (NOW - 260, HeadlineKind.SLOW)
    assert headline.sentence.startswith("2 of 3 lost runners of linux-4vcpu are replaced, and the successor of 1 is")


@pytest.mark.parametrize(
    ("others", "step"),
    [
        ([], "wait for about 1 more batch: this batch's successors seem to be online; the next batch follows when two"),
        ([requested(4, NOW - 10)], "wait for about 1 more batch: the next batch follows when two thirds of this one's"),
    ],
    ids=["all successors seem to be online", "one is not"],
)
def test_a_batch_whose_successors_are_online_waits_for_the_fuse_to_count_them(others, step):
    """The fuse takes only those for successors that the pool's own churn does not explain."""
    fuse = proving(batch_at=NOW - 30, since=NOW - 30)
    known = [healed(2, NOW - 5, replaced_at=NOW - 20), lost(3), *others]
    headline = found(online(1), *known, fuses={POOL: fuse})[0]
    assert headline.step.startswith(step)
    last = NOW - 10 if others else NOW - 20
    assert f"; by {clock_time(last + PROVE_SECONDS)} one suffices, and without any the fuse stops" in headline.step


def test_the_fuse_of_all_pools_waits_for_the_last_request_of_any_pool():
    gpu = {"custom_labels": ("gpu",), "labels": ("gpu",)}
    members = [requested(2, NOW - 60, granted_at=NOW - 60), lost(3), requested(4, NOW, granted_at=NOW - 60, **gpu)]
    of_linux = next(each for each in found(*members, fuses={WHOLE: proving(batch_at=NOW - 60)}) if each.pool == POOL)
    assert f"by {clock_time(NOW + 300)} one suffices" in of_linux.step


def test_each_pool_that_lost_runners_is_a_headline_those_that_wait_for_a_person_first():
    gpu = {"custom_labels": ("gpu",), "labels": ("gpu",)}
    first, second = found(lost(1), lost(2, **gpu), pauses={"gpu": PAUSE})[:2]
    assert [(each.pool, each.severity.value) for each in (first, second)] == [("gpu", "critical"), (POOL, "attention")]


# Everything else.

OTHERS = {
    "a stopped fuse without a loss": ({"fuses": {POOL: STOPPED}}, "The fuse of linux-4vcpu is stopped", True),
    "a deaf controller": (
        {"fuses": {POOL: replace(STOPPED, reason=FuseReason.REQUEST_NOT_ACCEPTED)}},
        "(no request of the last batch was accepted; they are still repeated)",
        True,
    ),
    "a proving fuse": ({"fuses": {WHOLE: proving()}}, "The fuse of all pools is proving", False),
    "jobs that nobody can take": (
        {"unserved": [waiting(1, pool=POOL), waiting(2, pool=POOL)]},
        f"2 jobs wait for {POOL}, and no online runner can take them (NoRunnerWithLabels).",
        False,
    ),
    "a job for labels of nobody": (
        {"unserved": [waiting(1, pool="secret-project")]},
        "1 job waits, and no pool has its labels (NoRunnerWithLabels).",
        False,
    ),
    "a misspelt label": (
        {"unserved": [waiting(1, pool="secret-project", meant="gpu")]},
        "1 job waits for a label that no runner has, probably gpu misspelt.",
        False,
    ),
    "misspelt labels": (
        {"unserved": [waiting(each, pool="secret-project", meant=label) for each, label in ((1, "gpu"), (2, "arm"))]},
        "2 jobs wait for labels that no runner has, probably arm, gpu misspelt.",
        False,
    ),
    "labels of which one is misspelt": (
        {"unserved": [waiting(each, pool="secret-project", meant=label) for each, label in ((1, "gpu"), (2, ""))]},
        "2 jobs wait for labels that no runner has, some of them probably gpu misspelt.",
        False,
    ),
    "a gate": ({"gates": {"rollout/pink": FAILED_GATE}}, "The gate of shard pink of rollout failed", False),
    "a phantom": (
        {"phantoms": [PHANTOM]},
        "runner-x1 counts as a runner, and cannot run a job (FailedCountsAsCapacity).",
        False,
    ),
    "a namespace": ({"unseen": [StaleNamespace("ns", NOW - 600)]}, "Namespace ns is not seen", False),
    "a source": (
        {"degraded_sources": [DegradedSource("pods in ns", "RBAC lacks list")]},
        "Not seen: pods in ns: RBAC lacks list.",
        False,
    ),
    "a pause": ({"org_pause": PAUSE}, "Remediation is paused by mona: network maintenance; nothing", False),
    "a slow queue": ({"slow": [waiting(1, QueueReason.ALL_BUSY, POOL)]}, f"1 job waits long for {POOL}", False),
}


@pytest.mark.parametrize(("changes", "sentence", "is_critical"), OTHERS.values(), ids=OTHERS)
def test_each_kind_has_its_sentence_and_a_next_step(changes, sentence, is_critical):
    (headline,) = found(online(), **changes)
    assert sentence in headline.sentence
    assert headline.sentence.endswith(".")
    assert headline.step
    assert headline.short
    assert (headline.severity is Severity.CRITICAL) is is_critical


SETTINGS = "https://github.com/organizations/acme/settings/installations/7"


@pytest.mark.parametrize("reason", sorted(NEEDS_AN_OWNER))
def test_what_an_owner_ends_at_github_leads_there_on_every_surface(reason):
    fleet = fleet_of(online(), survey=survey(failing_since=NOW - 40, failure=reason), settings_page=SETTINGS)
    headline = headlines(fleet, by_pool(fleet, NOW), NOW)[0]
    assert (headline.action, headline.command) == (SETTINGS, "")
    (document, *_) = headline_documents("acme", [headline], PageLinks(None, "acme"))
    assert document["link"] == SETTINGS
    console = Console(width=250, record=True, file=StringIO())
    console.print(headlines_text([document], {}, NOW))
    assert f"→ {headline.step}: {SETTINGS}" in console.export_text()
    assert f"]({SETTINGS})" in report_on(fleet, NOW).summary
    assert overview(fleet, NOW).headline.link == SETTINGS


@pytest.mark.parametrize(
    ("reason", "page", "command"),
    [
        ("PermissionMissing", "", "ghapp doctor"),
        ("BudgetSpent", SETTINGS, "ghapp doctor"),
        ("GitHubUnavailable", SETTINGS, ""),
        ("Unauthorized", SETTINGS, ""),
    ],
    ids=["no such page", "the settings do not end it", "it ends by itself", "its words name a command"],
)
def test_a_step_without_a_page_at_github_leads_to_doctor_unless_it_needs_no_command(reason, page, command):
    (headline,) = found(online(), survey=survey(failing_since=NOW - 40, failure=reason), settings_page=page)
    assert (headline.action, headline.link) == (command, "")


def test_jobs_of_lost_runners_belong_to_the_loss():
    kinds = [each.kind for each in found(lost(1), unserved=[waiting(1, QueueReason.RUNNERS_LOST, POOL)])]
    assert kinds == [HeadlineKind.LOST]


KNOWN_SOONING_GATE = GateState("a" * 40, NOW - 120 - MICROSECOND, waits=True)


@pytest.mark.parametrize(
    ("gate", "words"),
    [
        (KNOWN_SOONING_GATE, "The gate of shard pink of rollout has not passed since the deploy of aaaaaaa"),
        (KNOWN_SOONING_GATE._replace(began_at=NOW - 120), None),
        (KNOWN_SOONING_GATE._replace(waits=False), None),
        (FAILED_GATE._replace(ref="v42"), "The gate of shard pink of rollout failed after the deploy of v42."),
        (FAILED_GATE._replace(ref=""), "The gate of shard pink of rollout failed after its deploy."),
    ],
    ids=[
        "for longer than a runner takes to start",
        "just not",
        "it passes or is over",
        "of a tag",
        "of an unnamed version",
    ],
)
def test_a_gate_that_does_not_pass_after_a_deploy_is_a_headline(gate, words):
    headline = found(online(), gates={"rollout/pink": gate})[0]
    assert headline.kind is (HeadlineKind.WELL if words is None else HeadlineKind.GATE)
    assert (words or "healthy") in headline.sentence


def test_the_headline_of_a_gate_has_the_sentence_of_the_check_by_which_it_fails():
    pink = (POOL, "shard:pink")
    known = {"rules": [SHARDED], "gates": {f"{POOL}/pink": KNOWN_SOONING_GATE}}
    runners = [online(1), present(2, labels=pink)]
    why = "1 of 4 runners of pink online, 3 needed"
    headline = found(*runners, **known, gate_failures={f"{POOL}/pink": why})[0]
    assert headline.sentence.endswith(f" since the deploy of aaaaaaa: {why}.")
    assert headline.news == found(*runners, **known)[0].news, "its numbers are no news"


def test_the_offline_runners_of_a_failed_gate_are_counted_by_its_headline_alone():
    pink, purple = (POOL, "shard:pink"), (POOL, "shard:purple")
    runners = [online(1, labels=pink), present(2, labels=pink), present(3, labels=pink)]
    gates = {f"{POOL}/pink": FAILED_GATE}
    (headline,) = found(*runners, online(4, labels=purple), rules=[SHARDED], gates=gates)
    assert headline.sentence.endswith(": 2 of its 3 runners are offline.")
    assert headline.news == found(*runners[:2], rules=[SHARDED], gates=gates)[0].news, "their number is no news"
    _, offline = found(*runners, present(4, labels=purple), rules=[SHARDED], gates=gates)
    assert offline.sentence.startswith(f"1 of 4 runners of {POOL} is offline: ")
    assert offline.command == f"ghapp gate acme {POOL} purple"


@pytest.mark.parametrize("count", [MOST_PER_KIND - 1, MOST_PER_KIND, MOST_PER_KIND + 1, 500])
def test_headlines_of_one_kind_are_bounded_and_the_last_one_counts_the_others(count):
    pauses = {f"p{number:03}": PAUSE for number in range(count)}
    known = found(online(), pauses=pauses)
    assert len(known) == min(count, MOST_PER_KIND)
    assert sum(each.affected for each in known) == count
    assert (f"and {count - MOST_PER_KIND:,} more like it" in known[-1].sentence) is (count > MOST_PER_KIND)


def test_a_phantom_has_the_command_to_copy_and_a_part_of_the_page():
    (headline,) = found(online(), phantoms=[PHANTOM._replace(namespace="runners")])
    assert headline.command == "kubectl -n runners delete ephemeralrunner runner-x1"
    assert PageLinks("https://ghapp.acme.io", "acme").below(headline.page) == "https://ghapp.acme.io/orgs/acme#cluster"


def test_the_advice_of_each_phantom_is_its_step():
    for reason in PhantomReason:
        (headline,) = found(online(), phantoms=[PHANTOM._replace(reason=reason, advice=ADVICE[reason])])
        assert headline.step.lower() == ADVICE[reason].lower().removesuffix(".")


def test_a_closed_fuse_is_nothing():
    assert found(online(), fuses={POOL: Fuse()})[0].kind is HeadlineKind.WELL


def test_runners_that_come_and_go_are_no_news_and_each_step_of_a_loss_is():
    def news(*runners):
        return [each.news for each in found(*runners)]

    assert news(online(1)) == news(online(1), online(2))
    assert news(online(1), lost(9)) == news(online(1), online(2), lost(9))
    assert news(online(1), lost(9)) != news(online(1), requested(9, NOW))
    assert news(online(1), present(9)) == news(online(1), online(2), present(9))


@pytest.mark.parametrize("kind", ["unserved", "slow"])
def test_the_number_of_jobs_that_wait_is_no_news_and_why_they_wait_is(kind):
    def news(*jobs):
        return [each.news for each in found(online(1), **{kind: jobs})]

    busy = QueueReason.ALL_BUSY
    reason = busy if kind == "slow" else QueueReason.NO_RUNNER_WITH_LABELS
    assert news(waiting(1, reason, POOL)) == news(waiting(1, reason, POOL), waiting(2, reason, POOL))
    assert news(waiting(1, reason, POOL)) != news(waiting(1, reason, "another"))


def test_successors_are_counted_of_all_runners_that_were_lost_at_the_same_time():
    """Those that were confirmed first healed first."""
    early = [healed(number, NOW, **began(NOW - 60)) for number in range(10, 17)]
    late = [requested(number, NOW - 20, **began(NOW - 59)) for number in range(20, 25)]
    before = healed(30, NOW - 300, **began(NOW - 400))
    headline = found(online(1), *early, *late, before)[0]
    assert headline.sentence.endswith("are lost: replacement requested; 7 of 12 successors online.")


@pytest.mark.parametrize("age", [300, 599])
def test_a_suspicion_shorter_than_a_confirmation_is_no_headline(age):
    runner = suspect(1, absent_since=NOW - age, first_404_at=NOW - age)
    (only,) = found(online(2), runner, limits=Limits(confirm_seconds=300))
    assert (only.kind, only.short) == (HeadlineKind.WELL, "1 runner healthy, 1 being checked")


def test_how_many_runners_are_offline_or_suspect_is_no_news():
    held = {"absent_since": NOW - 400, "first_404_at": NOW - 390}
    few = [online(1), present(2), suspect(3, **held)]
    more = [*few, present(4), suspect(5, **held)]
    assert [each.news for each in found(*few)] == [each.news for each in found(*more)]
    assert [each.news for each in found(present(1))] != [each.news for each in found(online(2), present(1))]


def test_offline_runners_that_are_being_replaced_are_not_to_be_started():
    (headline,) = found(online(1), present(2, granted_at=NOW, event_id="e"))
    assert headline.sentence.endswith("GitHub lists it as offline; the replacement of 1 is granted.")
    assert headline.step == "nothing to do: replacement goes on by itself"


@pytest.mark.parametrize("pool", ["", POOL])
def test_a_phantom_is_not_to_be_started(pool):
    phantom = PHANTOM._replace(subject=present(2).name, pool=pool)
    (first,) = found(online(1), present(2), phantoms=[phantom])
    assert first.kind == HeadlineKind.PHANTOM
    first, offline = found(online(1), present(2), present(3), phantoms=[phantom])
    assert offline.sentence.startswith(f"2 of 3 runners of {POOL} are offline")
    assert offline.sentence.endswith("GitHub lists them as offline; 1 of them is a phantom.")
    assert offline.step == "start what is offline, or check its network; phantoms apart"
    both = [phantom, phantom._replace(subject=present(3).name)]
    (first,) = found(online(1), present(2), present(3), phantoms=both)
    assert (first.kind, first.affected) == (HeadlineKind.PHANTOM, 2)


def test_phantoms_are_ones_since_the_first_of_them_was_found():
    several = [PHANTOM, PHANTOM._replace(subject="runner-x2"), PHANTOM._replace(subject="runner-x3")]
    times = {key(PHANTOM): NOW - 130, key(several[1]): NOW - 150}
    assert found(online(), phantoms=several, found_since=times)[0].since == NOW - 150
    assert found(online(), phantoms=several)[0].since is None


def test_inflated_demand_is_a_scale_sets_and_not_a_runner():
    phantom = PHANTOM._replace(
        kind=PhantomKind.DEMAND_INFLATED, subject="arc-linux", reason=PhantomReason.DEMAND_INFLATED
    )
    (headline,) = found(online(), phantoms=[phantom])
    assert headline.sentence == "arc-linux has more runners created than jobs need (DemandInflated)."


SHARDED = SimpleNamespace(
    name=POOL, labels=(POOL,), shard_label="shard", shard_groups={}, shard_name=None, replacer="none"
)
GATE_FIRST = "see what the gate says before starting one by hand, as it would take users' jobs on an inactive shard"


@pytest.mark.parametrize(
    ("shards", "meaning", "shard"),
    [
        (("pink",), "GitHub lists it as offline, of shard pink.", "pink"),
        (("pink", "pink", "purple"), "GitHub lists them as offline, of 2 shards.", "pink"),
        (("pink", ""), "GitHub lists them as offline, of shard pink.", "pink"),
        (("",), "GitHub lists it as offline.", ""),
    ],
)
def test_before_an_offline_runner_of_a_shard_is_started_the_gate_is_asked(shards, meaning, shard):
    """A runner that is started by hand on the inactive shard takes users' jobs beside the active one."""
    runners = [present(number, labels=(POOL, *([f"shard:{of}"] if of else []))) for number, of in enumerate(shards, 2)]
    (headline,) = found(online(1, labels=(POOL, "shard:purple")), *runners, rules=[SHARDED])
    assert headline.sentence.endswith(meaning)
    assert (headline.step == GATE_FIRST) is bool(shard)
    runners_command = f"ghapp runners --org acme --pool {POOL} --state offline"
    assert headline.command == (f"ghapp gate acme {POOL} {shard}" if shard else runners_command)


def test_a_phantom_of_a_shard_is_a_phantom_first():
    pink = (POOL, "shard:pink")
    phantom = PHANTOM._replace(subject=present(2).name)
    (only,) = found(online(1), present(2, labels=pink), rules=[SHARDED], phantoms=[phantom])
    assert only.kind == HeadlineKind.PHANTOM
    offline = found(online(1), present(2, labels=pink), present(3, labels=pink), rules=[SHARDED], phantoms=[phantom])[
        -1
    ]
    assert (offline.step, offline.command) == (f"{GATE_FIRST}; phantoms apart", f"ghapp gate acme {POOL} pink")


@pytest.mark.parametrize(
    ("possible", "phantoms", "meaning", "step"),
    [
        ((2, 3), (), "all of them have no working pod in the cluster, and may be phantoms", KNOWN_SOON),
        (
            (2,),
            (3,),
            "1 of them is a phantom; 1 of them has no working pod in the cluster, and may be a phantom",
            KNOWN_SOON,
        ),
        ((2,), (), "1 of them has no working pod in the cluster, and may be a phantom", "start what is offline"),
    ],
)
def test_what_may_be_a_phantom_is_not_to_be_started(possible, phantoms, meaning, step):
    known = [PHANTOM._replace(subject=present(each).name) for each in phantoms]
    names = frozenset(present(each).name for each in possible)
    offline = found(online(1), present(2), present(3), phantoms=known, possible_phantoms=names)[-1]
    assert offline.sentence.endswith(f"GitHub lists them as offline; {meaning}.")
    assert offline.step.startswith(step)
    assert offline.needs_a_person is (step != KNOWN_SOON)


@pytest.mark.parametrize(
    ("phantoms", "title"),
    [(0, "3 runners offline"), (1, "3 runners offline"), (2, "3 runners offline"), (3, "3 phantoms")],
)
def test_title_and_table_count_the_same_offline_runners_whatever_else_they_are(phantoms, title):
    several = [PHANTOM._replace(subject=present(number).name) for number in range(2, 2 + phantoms)]
    report = report_on(fleet_of(online(1), present(2), present(3), present(4), phantoms=several), NOW)
    assert title in report.title
    row = next(line for line in report.summary.splitlines() if line.startswith(f"| `{POOL}`"))
    header = next(line for line in report.summary.splitlines() if line.startswith("| Pool"))
    assert dict(zip(header.split(" | "), row.split(" | "), strict=True))["Offline"] == "3"


def test_a_runner_that_was_never_observed_has_no_beginning():
    headline = found(online(1), online(2, observed_at=None, listed=False))[0]
    assert (headline.kind, headline.since) == (HeadlineKind.OFFLINE, None)
    assert headline.step.startswith("nothing to do")


@pytest.mark.parametrize(("count", "words"), [(1, "its job may have ended"), (2, "their jobs may have ended")])
def test_suspects_whose_deliveries_are_missing_are_counted_together(count, words):
    gone = {"absent_since": NOW - 900, "first_404_at": NOW - 890, "deliveries_behind_at": NOW - 880}
    (headline,) = found(online(9), *(suspect(number, **gone) for number in range(1, count + 1)))
    assert (headline.kind, headline.affected) == (HeadlineKind.SUSPECT, count)
    assert words in headline.sentence


def test_how_many_phantoms_there_are_is_no_news_and_another_reason_is():
    one, two = found(online(), phantoms=[PHANTOM]), found(online(), phantoms=[PHANTOM._replace(subject="x2"), PHANTOM])
    assert [each.news for each in one] == [each.news for each in two]
    other = found(online(), phantoms=[PHANTOM._replace(reason=PhantomReason.POD_LOST)])
    assert [each.news for each in one] != [each.news for each in other]


# Versions of the runner.


@pytest.mark.parametrize(
    ("ends_in", "kind", "severity", "meaning"),
    [
        (NOTICE_SECONDS + 1, HeadlineKind.WELL, Severity.GOOD, "well"),
        (NOTICE_SECONDS, HeadlineKind.VERSION, Severity.BUSY, "version 2.335.1 ending notice"),
        (WARNING_SECONDS + 1, HeadlineKind.VERSION, Severity.BUSY, "version 2.335.1 ending notice"),
        (WARNING_SECONDS, HeadlineKind.VERSION, Severity.ATTENTION, "version 2.335.1 ending warning"),
        (0, HeadlineKind.TOO_OLD, Severity.CRITICAL, "version 2.335.1 ended action"),
    ],
)
def test_the_end_of_a_version_is_a_headline_two_weeks_before_and_is_critical_once_it_is_there(
    ends_in, kind, severity, meaning
):
    dates = {"2.335.1": EndDates(NOW, NOW + ends_in, is_known=True)}
    headline, *others = found(online(1, version="2.335.1"), online(2), end_dates=dates)
    assert (headline.kind, headline.severity, headline.meaning, others) == (kind, severity, meaning, [])


OVER = {"2.335.1": EndDates(NOW, NOW - DAY, is_known=True)}


def test_a_version_that_has_ended_says_what_to_do_and_where_there_is_more():
    (headline,) = found(online(1, version="2.335.1"), online(2, version="2.337.0"), end_dates=OVER)
    assert headline.sentence == "1 runner of linux-4vcpu has version 2.335.1, which gets no jobs since 2026-09-20."
    assert "unpack the newest release" in headline.step
    assert (headline.command, headline.page, headline.pool, headline.affected, headline.since) == (
        "ghapp versions --org acme",
        "versions",
        POOL,
        1,
        NOW - DAY,
    )


def test_the_version_to_install_is_the_newest_that_is_known_to_be_current():
    dates = {**OVER, "2.337.0": EndDates(NOW, is_known=True)}
    (headline,) = found(online(1, version="2.335.1"), online(2, version="2.337.0"), end_dates=dates)
    assert "unpack 2.337.0" in headline.step


@pytest.mark.parametrize(
    "runners",
    [
        [present(1, version="2.335.1")],
        [online(1, version="2.335.1", retired_at=NOW)],
        [online(1, version="2.335.1", registered=False)],
        [online(1, version=None)],
    ],
    ids=["offline", "removed by its controller", "of another scope", "no version"],
)
def test_a_version_that_no_online_runner_has_is_no_headline(runners):
    assert not {HeadlineKind.TOO_OLD, HeadlineKind.VERSION} & {
        each.kind for each in found(*runners, end_dates=OVER, version_limits=VersionLimits("2.336.0"))
    }


def refused(number):
    came = NOW - 600
    return lost(
        number, ephemeral=True, version="2.335.1", first_seen=came, outdated_at=came, last_shown_at=came + 30
    )._replace(absent_since=came + 60, first_404_at=came + 61)


@pytest.mark.parametrize(("ended", "is_shown"), [(2, False), (3, True)])
def test_a_loop_of_ephemeral_runners_is_a_headline_though_none_is_online(ended, is_shown):
    kinds = found(*map(refused, range(1, ended + 1)), end_dates=OVER)
    assert [each.kind for each in kinds] == [HeadlineKind.TOO_OLD if is_shown else HeadlineKind.WELL]
    assert not is_shown or "3 ephemeral ones ended within an hour without a job" in kinds[0].sentence


def test_a_pause_with_an_end_says_when_it_ends():
    (paused,) = [each for each in found(online(), org_pause=ENDING) if each.kind is HeadlineKind.PAUSED]
    assert paused.step == f"wait until the pause ends at {time_of(NOW + 600)}, or end it now"


def test_a_person_has_to_decide_whether_lost_runners_wait_for_the_end_of_a_pause():
    lost_ones, paused = found(online(1), lost(2), org_pause=ENDING)
    step = f"decide whether the lost runners wait until the pause ends at {time_of(NOW + 600)}, or end it now"
    assert [each.step for each in (lost_ones, paused)] == [step] * 2
    assert lost_ones.needs_a_person
    assert paused.needs_a_person
    others = found(online(1), lost(2), pauses={"gpu": ENDING})
    assert not any(each.needs_a_person for each in others if each.kind is HeadlineKind.PAUSED)


def test_a_title_counts_offline_and_unknown_runners_apart_and_names_no_state_without_a_runner():
    other = {"labels": ("gpu",), "custom_labels": ("gpu",)}
    offline = [present(1), present(2, **other)]
    unknown = [online(number, observed_at=None, listed=False, **other) for number in (3, 4)]
    assert title_of(found(*offline)) == "2 runners offline"
    assert title_of(found(present(1), *unknown)) == "1 runner offline, 2 runners unknown"


def young(number, **changes):
    return suspect(number, absent_since=NOW - 5, first_404_at=NOW - 5, **changes)


BUSY = {"job_id": 7, "job_started_at": NOW - 60, "busy": True}


@pytest.mark.parametrize(
    ("runners", "affected"),
    [
        ([*(young(each) for each in range(1, 4)), online(9)], 3),
        ([*(young(each) for each in range(1, 3)), online(9)], None),
        ([*(young(each) for each in range(1, 4)), *(online(each) for each in range(10, 22))], 3),
        ([*(young(each) for each in range(1, 4)), *(online(each) for each in range(10, 23))], None),
        ([*(young(each, **BUSY) for each in range(1, 4)), online(9)], None),
        ([*(young(each, deliveries_behind_at=NOW) for each in range(1, 4)), online(9)], 3),
    ],
    ids=[
        "the floor",
        "below the floor",
        "the fraction",
        "below the fraction",
        "their jobs explain it",
        "deliveries are missing",
    ],
)
def test_as_many_suspects_at_once_as_would_trip_a_fuse_are_the_headline(runners, affected):
    waits = [waiting(1)]
    first, *_ = found(*runners, unserved=waits)
    if affected is None:
        assert first.kind is HeadlineKind.UNSERVED
    else:
        assert (first.kind, first.affected, first.severity) == (HeadlineKind.MASS_SUSPECT, affected, Severity.ATTENTION)
        assert (first.page, first.needs_a_person) == (f"runners?pool={POOL}&state=suspect", False)
        assert first.sentence.startswith(
            f"3 of {len(runners)} runners of {POOL} are missing from GitHub's list at once"
        )


def test_many_suspects_of_different_pools_are_no_mass():
    pools = [("a",), ("b",), ("c",)]
    runners = [young(number, labels=each, custom_labels=each) for number, each in enumerate(pools, 1)]
    assert found(*runners)[0].kind is HeadlineKind.WELL


def test_the_number_of_missing_runners_is_no_news():
    few = found(*(young(each) for each in range(1, 4)))[0]
    more = found(*(young(each) for each in range(1, 6)))[0]
    assert few.news == more.news
    assert few.sentence != more.sentence


@pytest.mark.parametrize("reason", BLINDNESS)
def test_only_what_a_person_can_end_needs_a_person_while_github_cannot_be_read(reason):
    blind = found(online(), survey=survey(failing_since=NOW - 40, failure=reason))[0]
    by_itself = {"GitHubUnavailable", "RateLimited", "OrganizationRenamed", "ListIncomplete", "ListEmpty"}
    assert blind.needs_a_person is (reason not in by_itself)


@pytest.mark.parametrize(
    ("queued", "idle", "effect"),
    [
        (0, 43, "no job waits for this pool, 43 runners are idle"),
        (1, 0, "1 job waits for this pool, no runner is idle"),
        (12, 1, "12 jobs wait for this pool, 1 runner is idle"),
    ],
)
def test_the_headline_of_a_loss_says_whether_jobs_wait_and_that_is_no_news(queued, idle, effect):
    fleet = [online(1), lost(2)]
    headline = found(*fleet, demand=[PoolDemand(POOL, queued, 0, idle, idle)])[0]
    assert f" is lost ({effect}): " in headline.sentence
    assert headline.news == found(*fleet)[0].news
