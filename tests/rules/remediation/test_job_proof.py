"""What jobs show of the losses of a busy pool: exact boundaries, and models of such pools with true and false losses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf
from random import Random

import pytest

from ghapp.remediation.fuse import Fuse, FuseLimits, Position
from ghapp.remediation.fuse_counts import fuse_counts
from ghapp.remediation.job_proof import (
    OVERTAKEN_SECONDS,
    PEERS_SECONDS,
    TOGETHER_SECONDS,
    KnownJob,
    KnownJobs,
    are_lost_by_jobs,
)
from ghapp.runners.evidence import Evidence
from ghapp.runners.verdict import State
from tests.rules.builders import MICROSECOND, NOW, lost, online, survey

LIMITS = FuseLimits()
WITHIN = 75.0
"""A quarter of `prove_seconds`, and the least time that is tried in which all newcomers of these tables have a job."""

Member = tuple[Evidence, State]


def newcomer(number: int, at: float, job_after: float | None = WITHIN, **changes) -> Member:
    """An ephemeral runner that came `at` seconds after the loss, and was given a job that much later."""
    job_at = None if job_after is None else NOW + at + job_after
    known = {"ephemeral": True, "first_seen": NOW + at, "job_id": number, "job_started_at": job_at}
    return online(1000 + number, **{**known, **changes}), State.HEALTHY


def waiting(number: int, idle_for: float = WITHIN, **changes) -> Member:
    """A lost ephemeral runner that had been idle for so long when it went missing."""
    missing = {"first_seen": NOW - idle_for, "absent_since": NOW, "first_404_at": NOW + 10, "confirmed_at": NOW + 40}
    return lost(number, **{"ephemeral": True, **missing, **changes}), State.INVALIDATED


def peers(**changes) -> list[Member]:
    """As few newcomers as are enough, before the loss, around it, and since."""
    return [newcomer(number, at, **changes) for number, at in enumerate([-200.0] * 10 + [1.0] * 10)]


WAITING = [waiting(1), waiting(2)]


NO_JOBS = KnownJobs()


def shown(members: list[Member], after: float = 150.0, jobs: KnownJobs | None = NO_JOBS, **of_survey) -> bool:
    return are_lost_by_jobs(members, jobs, survey(**{"swept_at": NOW + 7200, **of_survey}), NOW + after, LIMITS)


@pytest.mark.parametrize(
    ("count", "after", "is_shown"),
    [(2, 150.0, True), (2, 150.0 - MICROSECOND, False), (1, 150.0, False), (1, 225.0, True), (0, 3600.0, False)],
    ids=["two trials", "not twice as long", "one trial", "two trials of one runner", "no runner waits"],
)
def test_each_time_without_a_job_is_a_trial_of_each_runner_that_waits(count, after, is_shown):
    assert shown([*peers(), *(waiting(number) for number in range(count))], after) is is_shown


@pytest.mark.parametrize(
    ("jobs", "successors"), [(None, 0), (NO_JOBS, 2)], ids=["jobs are unknown", "jobs show the loss"]
)
def test_successors_that_churn_may_explain_count_once_jobs_show_that_the_losses_are_real(jobs, successors):
    replaced = [waiting(number, granted_at=NOW, replaced_at=NOW) for number in (51, 52)]
    left = {"ephemeral": True, "first_seen": NOW - 7200, "job_started_at": NOW - 600, "retired_at": NOW - 10}
    departed = [(online(number, **left), State.RETIRED) for number in range(60, 90)]
    counted = fuse_counts(
        [*peers(), *WAITING, *replaced, *departed],
        Fuse(Position.PROVING, since=NOW, batch=2, allowed=2, batch_at=NOW),
        survey(swept_at=NOW + 7200),
        NOW + 150.0,
        LIMITS,
        jobs=jobs,
    )
    assert (counted.accepted, counted.newcomers, counted.successors) == (2, 10, successors)


def test_newcomers_of_much_later_do_not_hide_that_those_around_the_loss_have_no_job():
    later = [newcomer(number, 400.0) for number in range(1000, 1900)]
    without = [newcomer(90 + number, 1.0, None) for number in range(3)]
    assert shown([*peers(), *later, *WAITING], 600.0)
    assert not shown([*peers(), *without, *later, *WAITING], 600.0)


@pytest.mark.parametrize("share", [1 / 8, 1 / 4, 1 / 2])
def test_the_time_in_which_newcomers_have_a_job_is_found_by_trial(share):
    within = share * LIMITS.prove_seconds
    members = [*peers(job_after=within), *(waiting(number, within) for number in range(20))]
    assert shown(members, 2 * within)
    assert not shown(members, 2 * within - MICROSECOND)


@pytest.mark.parametrize(
    "members",
    [
        peers()[1:],
        peers()[:-1],
        [*peers(), *(newcomer(90 + number, -200.0, None) for number in range(2))],
        [*peers(), *(newcomer(90 + number, 1.0, WITHIN + MICROSECOND) for number in range(2))],
        [*(newcomer(number, -301.0) for number in range(10)), *peers()[10:19], newcomer(90, 76.0)],
        [
            *(newcomer(number, -301.0) for number in range(1000, 1900)),
            *(newcomer(90 + n, -90.0, None) for n in range(3)),
            *peers(),
        ],
        [*peers()[1:], newcomer(90, -PEERS_SECONDS)],
        [*peers()[:-1], newcomer(90, WITHIN + MICROSECOND, 0.0)],
        peers(ephemeral=False),
        peers(ephemeral=None),
        peers(registered=False),
        peers(group_id=7),
        peers(labels=("self-hosted",)),
        peers(outdated_at=NOW - 300, job_id=None, job_started_at=None),
        [(each._replace(first_seen=each.first_seen + 90 * 86_400.0), state) for each, state in peers()],
    ],
    ids=[
        "too few came before",
        "too few came since",
        "two of those before have none",
        "two of those since had theirs late",
        "too few came around the loss",
        "deliveries are missing around the loss",
        "one came too long before",
        "one came too late",
        "persistent",
        "GitHub does not say whether they are ephemeral",
        "no list has shown them",
        "of another group",
        "with other labels",
        "their version gets no jobs",
        "dated in the future",
    ],
)
def test_newcomers_show_nothing_unless_enough_of_the_same_kind_are_given_jobs(members):
    assert shown([*peers(), *WAITING])
    assert not shown([*members, *WAITING])


@pytest.mark.parametrize(
    "members",
    [
        [*peers()[1:], newcomer(90, -PEERS_SECONDS + MICROSECOND)],
        [*peers()[1:], newcomer(90, -WITHIN)],
        [*peers()[:-1], newcomer(90, WITHIN, 0.0)],
    ],
    ids=["within an hour before", "as late before as a job takes", "as late as a job takes"],
)
def test_newcomers_count_that_came_in_time_to_be_compared(members):
    assert shown([*members, *WAITING])


@pytest.mark.parametrize(
    ("denied", "is_shown"), [(1, True), (2, False)], ids=["nine tenths have a job in time", "fewer have one"]
)
def test_nine_tenths_of_the_newcomers_must_be_given_a_job_in_time(denied, is_shown):
    late = [newcomer(90 + number, -1000.0, 900.0) for number in range(denied)]
    assert shown([*peers()[denied:], *late, *WAITING], 3600.0) is is_shown


@pytest.mark.parametrize(
    "loss",
    [
        waiting(1, WITHIN + MICROSECOND),
        waiting(1, granted_at=NOW + 45),
        (waiting(1)[0], State.SUSPECT),
        waiting(1, registered=False),
        waiting(1, outdated_at=NOW - 300),
    ],
    ids=[
        "had been idle for longer",
        "its replacement was granted",
        "not confirmed",
        "no list has shown it",
        "its version gets no jobs",
    ],
)
def test_only_confirmed_losses_that_might_have_been_given_a_job_are_tried(loss):
    assert not shown([*peers(), waiting(2), loss])


@pytest.mark.parametrize(
    "other",
    [
        waiting(3, ephemeral=False),
        waiting(3, ephemeral=None),
        waiting(3, group_id=7),
        waiting(3, labels=("self-hosted", "gpu")),
        waiting(3, absent_since=NOW + 9 * 86_400.0, first_404_at=NOW + 9 * 86_400.0),
    ],
    ids=["persistent", "of an unknown kind", "of another group", "with other labels", "dated in the future"],
)
def test_the_jobs_of_one_kind_show_nothing_of_another_one_that_waits_beside_it(other):
    assert not shown([*peers(), *WAITING, other], 3600.0)


def test_jobs_of_a_kind_are_those_that_its_labels_allow_and_those_that_its_members_took():
    fewer, all_labels = KnownJob(frozenset({"linux"})), KnownJob(frozenset({"linux", "gpu"}))
    more, others = KnownJob(frozenset({"linux", "gpu", "large"})), KnownJob(frozenset({"windows"}))
    taken = [KnownJob(frozenset(), runner_id=number) for number in (1, 2, 3)]
    known = KnownJobs([fewer, all_labels, more, others], taken)
    kind = (frozenset({"linux", "gpu"}), None)
    assert known.of(kind, [waiting(1), waiting(3)]) == KnownJobs([fewer, all_labels], [taken[0], taken[2]])


@pytest.mark.parametrize(("ahead", "is_shown"), [(0.0, True), (MICROSECOND, False)], ids=["now", "in the future"])
def test_a_loss_that_is_dated_in_the_future_shows_nothing(ahead, is_shown):
    missing = {"first_seen": NOW + 100, "absent_since": NOW + 150 + ahead, "first_404_at": NOW + 150 + ahead}
    assert shown([*peers(), *WAITING, waiting(3, **missing)], 150.0) is is_shown


def test_a_runner_is_tried_from_when_it_went_missing():
    """A runner that is lost long after the others has not been without a job since they were."""
    late = [waiting(number, first_seen=NOW + 45, absent_since=NOW + 60, first_404_at=NOW + 70) for number in (1, 2)]
    members = [*peers(), *(newcomer(50 + number, 61.0) for number in range(10)), *late]
    assert not shown(members, 60.0 + 150.0 - MICROSECOND)
    assert shown(members, 60.0 + 150.0)


@pytest.mark.parametrize(
    ("missing", "started", "is_shown"),
    [
        (0.0, MICROSECOND, False),
        (0.0, 0.0, True),
        (-60.0, -1.0, False),
        (-60.0 - MICROSECOND, -1.0, True),
        (60.0, 61.0, False),
        (60.0 + MICROSECOND, 61.0, True),
    ],
    ids=["after it", "at that moment", "a minute before the others", "earlier", "a minute after the others", "later"],
)
@pytest.mark.parametrize("ephemeral", [True, False, None])
def test_a_single_runner_that_was_given_a_job_after_it_went_missing_with_the_others_shows_that_it_is_false(
    missing, started, is_shown, ephemeral
):
    """Those of other times left after their jobs, and one list, some seconds old, had lacked them before."""
    seen = {"absent_since": NOW + missing, "first_404_at": None, "confirmed_at": None, "first_seen": NOW - 70}
    at_work = waiting(3, **seen, job_id=3, job_started_at=NOW + started, ephemeral=ephemeral)[0]
    assert shown([*peers(), *WAITING, waiting(4), (at_work, State.RETIRED)]) is is_shown


@pytest.mark.parametrize(
    ("came", "state", "is_shown"),
    [(1.0, State.INVALIDATED, False), (1.0, State.SUSPECT, False), (-200.0, State.INVALIDATED, True)],
    ids=["newcomers are lost as well", "newcomers are missing", "lost before"],
)
def test_newcomers_that_vanish_without_a_job_count_against_the_proof(came, state, is_shown):
    """They are lost again, or left after jobs that no delivery named; then those that wait may have had one as well."""
    at = NOW + came + 30
    missing = {"absent_since": at, "first_404_at": at + 10, "confirmed_at": at + 40, "granted_at": at + 41}
    vanished = [(newcomer(90 + number, came, None, **missing)[0], state) for number in range(2)]
    assert shown([*peers(), *WAITING, *vanished]) is is_shown


@pytest.mark.parametrize(
    ("idle", "is_shown"),
    [
        ([newcomer(80, -50.0, 50.0 + WITHIN)], True),
        ([newcomer(80, -50.0, 50.0 + WITHIN + MICROSECOND)], False),
        ([newcomer(80, -50.0, None)], False),
        ([newcomer(80, -50.0, 50.0)], True),
        ([newcomer(80, -50.0, None, was_busy=True)], True),
        ([newcomer(80, 0.0, None)], False),
        ([newcomer(80 + number, -WITHIN - 1.0, WITHIN + 1.0) for number in range(2)], True),
        ([newcomer(80 + number, -WITHIN - MICROSECOND, WITHIN + 1.0) for number in range(2)], False),
        ([newcomer(80, -WITHIN - MICROSECOND, WITHIN + 1.0)], True),
        ([newcomer(80 + number, -WITHIN, WITHIN + 1.0) for number in range(2)], True),
    ],
    ids=[
        "given a job since",
        "given one late",
        "still idle",
        "at work at the loss",
        "at work, and no delivery names its job",
        "came as the others were lost, and still idle",
        "idle for long, and given a job at the loss",
        "idle for long before the loss",
        "one of four idle for long before the loss",
        "idle for a while before the loss",
    ],
)
def test_a_pool_in_which_runners_stay_idle_beside_the_lost_ones_shows_nothing(idle, is_shown):
    """GitHub may prefer new runners there: that a runner is given no job does not show that it is lost."""
    more = [newcomer(60 + number, -201.0) for number in range(10)]
    assert shown([*peers(), *more, *WAITING, waiting(3), *idle]) is is_shown


def test_time_that_no_list_covers_is_no_trial():
    members = [*peers(), *WAITING]
    assert not shown(members, 150.0, blind=((NOW + 10, NOW + 10 + 3 * MICROSECOND),))
    assert not shown(members, 3600.0, swept_at=None)


LABELS = frozenset(each.lower() for each in WAITING[0][0].labels)
QUEUED = KnownJob(LABELS, NOW + 1.0, "acme/app")
LATER = QUEUED._replace(queued_at=NOW + 90.0, runner_id=1000, started_at=NOW + 91.0)
"""A job that one of the `peers` took."""


@pytest.mark.parametrize(
    ("queued", "taken", "is_shown"),
    [
        ([QUEUED] * 2, LATER, True),
        ([QUEUED] * 3, LATER, False),
        ([QUEUED] * 3, LATER._replace(queued_at=QUEUED.queued_at + OVERTAKEN_SECONDS), True),
        ([QUEUED] * 3, LATER._replace(queued_at=QUEUED.queued_at + OVERTAKEN_SECONDS + MICROSECOND), False),
        ([QUEUED] * 3, LATER._replace(runner_id=4000), True),
        ([QUEUED] * 3, LATER._replace(runner_id=1081), False),
        ([QUEUED] * 3, LATER._replace(labels=frozenset({"self-hosted"})), True),
        ([QUEUED._replace(labels=frozenset({"self-hosted"}))] * 3, LATER, True),
        ([QUEUED._replace(labels=LABELS | {"gpu"})] * 3, LATER._replace(labels=LABELS | {"gpu"}), True),
        ([QUEUED._replace(repository="acme/web")] * 3, LATER, True),
        ([QUEUED._replace(queued_at=NOW - 999)] * 3, LATER._replace(started_at=NOW - TOGETHER_SECONDS), True),
        ([QUEUED._replace(queued_at=NOW - 999)] * 3, LATER._replace(started_at=NOW - TOGETHER_SECONDS + 0.1), False),
    ],
    ids=[
        "two for ten runners that wait",
        "three of them",
        "queued half a minute before",
        "longer before",
        "a runner of another kind took the later one",
        "a runner that a list shows only now took it",
        "the later one needs fewer labels",
        "the earlier one needs fewer labels",
        "they need a label that the runners lack",
        "of a repository whose jobs these runners do not take",
        "overtaken before the loss",
        "overtaken beside the loss",
    ],
)
def test_runners_that_may_have_jobs_that_seem_to_be_overtaken_are_not_shown_to_be_lost(queued, taken, is_shown):
    """The starts of just their jobs may be missing or late."""
    idle, listed_now = newcomer(80, -50.0, 50.0 + WITHIN), newcomer(81, 150.0, -59.0)
    members = [*peers(), idle, listed_now, *(waiting(number) for number in range(10))]
    assert shown(members, 150.0, KnownJobs(queued, [taken])) is is_shown


@pytest.mark.parametrize(("overtaken", "is_shown"), [(3, True), (4, False)], ids=["a tenth", "more"])
def test_as_many_jobs_as_a_tenth_of_the_runners_that_wait_may_seem_to_be_overtaken(overtaken, is_shown):
    members = [*peers(), newcomer(80, -50.0, 50.0 + WITHIN), *(waiting(number) for number in range(30))]
    assert shown(members, jobs=KnownJobs([QUEUED] * overtaken, [LATER])) is is_shown


def test_jobs_that_are_not_known_show_nothing():
    assert not shown([*peers(), *WAITING], jobs=None)


def taken_at(*times: float) -> list[KnownJob]:
    return [KnownJob(LABELS, NOW - 200.0, "acme/app", 1000 + place, NOW + at) for place, at in enumerate(times)]


@pytest.mark.parametrize(
    ("since", "queued", "idle", "is_shown"),
    [
        (8, (), [], True),
        (7, (), [], False),
        (7, (QUEUED,), [], True),
        (7, (QUEUED._replace(queued_at=NOW),), [], False),
        (7, (QUEUED._replace(queued_at=NOW + WITHIN),), [], True),
        (7, (QUEUED._replace(queued_at=NOW + WITHIN + MICROSECOND),), [], False),
        (7, (), [newcomer(80, -50.0, 50.0 + WITHIN)], True),
    ],
    ids=[
        "eight tenths as often",
        "less often",
        "less often, and a job waits in vain",
        "that job waits since before the loss",
        "that job waits for as long as a job takes",
        "that job may be taken yet",
        "a runner that was idle beside them has a job since",
    ],
)
def test_where_all_idle_runners_are_lost_fewer_jobs_than_before_show_nothing(since, queued, idle, is_shown):
    """GitHub may give each of the few jobs to a newcomer."""
    more = [newcomer(60 + number, -201.0) for number in range(10)]
    jobs = KnownJobs(queued, taken_at(*(-150.0 for _ in range(10)), *(90.0 for _ in range(since))))
    assert shown([*peers(), *more, *WAITING, waiting(3), *idle], jobs=jobs) is is_shown


@pytest.mark.parametrize(("since", "is_shown"), [(8, True), (7, False)])
def test_a_job_that_began_as_the_runners_were_lost_is_one_of_those_before(since, is_shown):
    more = [newcomer(60 + number, -201.0) for number in range(10)]
    jobs = KnownJobs((), taken_at(*[-150.0] * 5, *[0.0] * 5, *[90.0] * since))
    assert shown([*peers(), *more, *WAITING, waiting(3)], jobs=jobs) is is_shown


# ---- models of a busy pool


@dataclass(frozen=True)
class BusyPool:
    """A pool of ephemeral runners whose jobs never stop.

    Attributes:
        size: runners before the loss; each that leaves has its newcomer `boots` seconds later.
        jobs_apart: mean seconds from one job to the next.
        order: which idle runner GitHub prefers.
        lost: how many idle ones go missing.
        share: of the jobs that deliveries name, and no earlier than `late` seconds after their start.
        slackens: after the loss there are that many times fewer jobs.
        hidden: deliveries name no start of the missing runners' jobs, where the loss is false.
    """

    size: int = 40
    jobs_apart: float = 3.0
    boots: float = 30.0
    order: str = "any"
    lost: int = 15
    share: float = 1.0
    late: float = 0.0
    slackens: float = 1.0
    is_false: bool = False
    hidden: bool = False
    seed: int = 0


LOST_AFTER, BATCH_AFTER, ENDS_AFTER = 3600.0, 3700.0, 3700.0 + 4200.0


@dataclass
class ModelJob:
    """A job of the model: when it was queued, taken by which runner, named by a delivery, and over."""

    queued_at: float
    runner_id: int = 0
    started_at: float = inf
    delivered_at: float = inf
    over_at: float = inf

    def known(self) -> KnownJob:
        """As deliveries report it."""
        return KnownJob(LABELS, self.queued_at, "acme/app", self.runner_id, self.started_at)


def members_of(pool: BusyPool) -> Iterator[tuple[float, list[Member], KnownJobs]]:
    """Yields what is known of the pool each half minute after the batch was accepted; NOW is that moment.

    Lists show it every ten seconds. Where the loss is false, the missing runners work as before.
    """
    random = Random(repr(pool))
    begins = NOW - BATCH_AFTER
    began = {number: begins - random.uniform(0, 60) for number in range(pool.size)}
    known: dict[int, Evidence] = {}
    idle, missing, heap, latest = sorted(began), set[int](), list[tuple[float, int, str]](), pool.size
    jobs, of_runner = list[ModelJob](), dict[int, ModelJob]()

    def later(at: float, what: str, number: int = 0) -> None:
        heappush(heap, (at, number, what))

    def give(job: ModelJob, runner: int, at: float) -> None:
        idle.remove(runner)
        is_hidden = pool.hidden and runner in missing
        is_named = random.random() < pool.share and not is_hidden
        lasts = 2 * ENDS_AFTER if is_hidden else random.uniform(20.0, 60.0)
        job.runner_id, job.started_at, job.over_at = runner, at, at + lasts + pool.late
        job.delivered_at = at + pool.late if is_named else inf
        of_runner[runner] = job
        later(at + lasts, "end", runner)

    later(begins, "job")
    later(begins + LOST_AFTER, "loss")
    for place in range(int(ENDS_AFTER / 10)):
        later(begins + 10.0 * place, "list")
    while heap[0][0] <= begins + ENDS_AFTER:
        at, number, what = heappop(heap)
        if what == "job":
            later(at + random.expovariate(1 / (pool.jobs_apart * (pool.slackens if missing else 1.0))), "job")
            jobs.append(ModelJob(at))
        elif what == "end":
            later(at + pool.boots * random.uniform(0.7, 1.3), "boot")
            if number in known:
                known[number] = known[number]._replace(absent_since=known[number].absent_since or at)
        elif what == "boot":
            latest += 1
            idle.append(latest)
            began[latest] = at
        elif what == "loss":
            missing = set(random.sample(idle, min(pool.lost, len(idle))))
            for each in missing:
                known[each] = lost(
                    each,
                    ephemeral=True,
                    first_seen=began[each],
                    absent_since=at,
                    first_404_at=at + 30,
                    confirmed_at=at + 60,
                )
        elif what == "list":
            at_work = (each for each, job in of_runner.items() if job.over_at > at + pool.late)
            for each in {*idle, *at_work} - known.keys():
                known[each] = online(each, ephemeral=True, first_seen=at)
            if at > NOW and int(at - NOW) % 60 < 10:
                _take_deliveries(known, of_runner, at)
                members = [(each, _state(each, missing)) for each in known.values()]
                queued = [job.known()._replace(runner_id=None, started_at=None) for job in jobs if _waits(job, at)]
                yield at, members, KnownJobs(queued, [job.known() for job in jobs if job.delivered_at <= at])
        waiting_jobs = [job for job in jobs if not job.runner_id] if what in ("job", "boot") else []
        able = [each for each in idle if pool.is_false or each not in missing]
        for job in waiting_jobs[: len(able)]:
            chosen = {"any": random.choice(able), "oldest": able[0], "newest": able[-1]}[pool.order]
            able.remove(chosen)
            give(job, chosen, at)


def _waits(job: ModelJob, at: float) -> bool:
    """Whether a job seems to wait: no delivery named its start, or its end."""
    return job.delivered_at > at and job.over_at > at


def _take_deliveries(known: dict[int, Evidence], jobs: Mapping[int, ModelJob], at: float) -> None:
    """Records the jobs of listed runners that deliveries have named by now."""
    for each, job in jobs.items():
        if job.delivered_at <= at and each in known and known[each].job_id is None:
            known[each] = known[each]._replace(job_id=each, job_started_at=job.started_at)


def _state(evidence: Evidence, missing: set[int]) -> State:
    if evidence.job_id is None and evidence.id in missing:
        return State.INVALIDATED
    return State.RETIRED if evidence.absent_since is not None else State.HEALTHY


def proven_after(pool: BusyPool) -> float | None:
    """Returns the seconds after the batch at which jobs show the losses to be real; None if they never do."""
    seen = survey(swept_at=NOW + 7200)
    found = (at for at, members, jobs in members_of(pool) if are_lost_by_jobs(members, jobs, seen, at, LIMITS))
    return next((at - NOW for at in found), None)


ORDERS = ("any", "oldest", "newest")


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    "changes",
    [
        {"slackens": 4.0},
        {"slackens": 20.0, "jobs_apart": 1.0, "boots": 20.0, "size": 60, "lost": 10},
        {"late": 300.0, "share": 0.5},
        {"hidden": True},
        {"hidden": True, "late": 60.0, "size": 90, "lost": 71},
    ],
    ids=[
        "fewer jobs",
        "hardly any job",
        "deliveries late and half of them missing",
        "the starts of their jobs are missing",
        "and those of others are late",
    ],
)
def test_a_false_loss_of_a_busy_pool_is_never_shown_to_be_real(order, changes):
    """Whatever order GitHub has, and whatever happens to the jobs at the same time."""
    assert proven_after(BusyPool(order=order, is_false=True, **changes)) is None


@pytest.mark.parametrize(
    "pool",
    [
        BusyPool(),
        BusyPool(order="oldest"),
        BusyPool(late=60.0, share=0.95, lost=10),
        BusyPool(size=60, lost=60),
    ],
    ids=["any order", "the oldest first", "deliveries late, and some missing", "all idle ones are lost"],
)
def test_a_true_loss_of_a_busy_pool_is_shown_in_time(pool):
    proven = proven_after(pool)
    assert proven is not None
    assert proven <= 2 * LIMITS.prove_seconds
