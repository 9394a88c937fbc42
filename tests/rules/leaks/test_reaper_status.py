"""The status of the reaper, and how long it is reported."""

import pytest

from ghapp.leaks.documents import WHY_IT_WAITS, ReaperTerms, leak_documents, leaked_pods, leaks_of_name
from ghapp.leaks.leak_fuse import ReapedPod
from ghapp.leaks.reaper_status import (
    MOST_LEAKING,
    OVERDUE_SECONDS,
    REPORTED,
    LeakingPod,
    ReaperStatus,
    examples,
    is_overdue,
    kept_by_guard,
    kept_pods,
    leaking,
    reaper_status,
)
from ghapp.leaks.tick import WAITS, Guard, TickMemory, TickResult
from ghapp.remediation.fuse import Fuse, Position
from ghapp.remediation.pause import Pause
from ghapp.report.documents import pause_in_words
from tests.rules.builders import MICROSECOND, NOW, proving
from tests.rules.pods.builders import pod


def status_at(at=NOW, failing_since=None):
    return reaper_status(at, failing_since, NOW, reaped=4, deferred=3, would_reap=2, never_runners=1)


@pytest.mark.parametrize(
    ("at", "overdue"),
    [
        (NOW, False),
        (NOW - OVERDUE_SECONDS, False),
        (NOW - OVERDUE_SECONDS - MICROSECOND, True),
        (NOW + OVERDUE_SECONDS, False),
        (NOW + OVERDUE_SECONDS + MICROSECOND, True),
        (None, True),
    ],
    ids=["now", "three minutes ago", "longer ago", "a clock that differs", "a clock that jumped", "never"],
)
def test_the_reaper_is_overdue_three_minutes_after_its_last_tick(at, overdue):
    assert is_overdue(at, NOW) is overdue
    assert status_at(at) == (ReaperStatus(4) if overdue else ReaperStatus(4, 3, 2, never_runners=1))


@pytest.mark.parametrize(
    ("since", "held_up"),
    [(None, False), (NOW - OVERDUE_SECONDS, False), (NOW - OVERDUE_SECONDS - MICROSECOND, True)],
    ids=["no failure", "a short failure", "a lasting failure"],
)
def test_only_a_lasting_failure_is_reported(since, held_up):
    assert status_at(failing_since=since).held_up_since == (since if held_up else None)


def test_of_the_pods_that_are_in_use_the_oldest_three_of_each_guard_are_named():
    pods = [pod(name=f"linux-{number}", uid=f"uid-{number}", created_at=NOW - number) for number in range(7)]
    guards = [Guard.CLAIMED] * 4 + [Guard.SESSION_OPEN, Guard.UNNAMED, Guard.NO_RUNNER]
    named = kept_pods(TickResult(kept=tuple(zip(pods, guards, strict=True))))
    place = pods[0].namespace
    assert named == {
        "Claimed": (f"{place}/linux-3", f"{place}/linux-2", f"{place}/linux-1"),
        "SessionOpen": (f"{place}/linux-4",),
    }


def test_kept_pods_are_counted_by_guard_and_the_oldest_five_are_named_as_examples():
    pods = [pod(name=f"linux-{number}", uid=f"uid-{number}", created_at=NOW - number) for number in range(9)]
    guards = [Guard.UNNAMED] * 6 + [Guard.SESSION_OPEN]
    reaping = TickResult(kept=tuple(zip(pods[:7], guards, strict=True)), held=((pods[7], Guard.MASS_LEAK),))
    counts = kept_by_guard(reaping)
    assert counts == {"Unnamed": 6, "SessionOpen": 1, "MassLeak": 1}
    named = examples(reaping)
    oldest = tuple((f"runners/linux-{number}", NOW - number) for number in (5, 4, 3, 2, 1))
    assert named == {"Unnamed": oldest, "MassLeak": (("runners/linux-7", NOW - 7),)}
    found = reaper_status(
        NOW, None, NOW, reaped=0, deferred=0, would_reap=0, never_runners=0, held=1, kept=counts, examples=named
    )
    assert found == ReaperStatus(held=1, kept={"Unnamed": 6, "MassLeak": 1}, examples=named)


def test_a_leak_that_is_not_deleted_is_named_with_its_runner_since_when_and_what_keeps_it():
    pods = [pod(name=f"linux-{number}", uid=f"uid-{number}", created_at=NOW - number) for number in range(5)]
    memory = TickMemory(since={"uid-0": NOW - 70}, names={"uid-0": "jit-0"})
    result = TickResult(
        reap=pods[4:],
        would_reap=pods[:1],
        held=((pods[1], Guard.MASS_LEAK),),
        kept=((pods[2], Guard.UNNAMED), (pods[3], Guard.SESSION_OPEN)),
        memory=memory,
    )
    assert leaking(result, {"uid-1": "k8s"}) == (
        LeakingPod("runners", "linux-2", "", NOW - 2, "Unnamed"),
        LeakingPod("runners", "linux-1", "", NOW - 1, "MassLeak", "k8s"),
        LeakingPod("runners", "linux-0", "jit-0", NOW - 70),
    )
    many = TickResult(deferred=tuple(pod(name=f"p-{each}", uid=f"u-{each}") for each in range(MOST_LEAKING + 1)))
    assert len(leaking(many, {})) == MOST_LEAKING


def test_a_pod_that_only_waits_out_its_grace_is_named_last_and_an_idle_one_is_not():
    pods = [pod(name=f"linux-{number}", uid=f"uid-{number}", created_at=NOW - number) for number in range(5)]
    guards = [Guard.UNNAMED, *WAITS, Guard.UNCLAIMED_BRIEFLY, Guard.SESSION_OPEN]
    spent = frozenset({"uid-0", "uid-1", "uid-2", "uid-4"})
    result = TickResult(
        kept=tuple(zip(pods, guards, strict=True)), memory=TickMemory(since={"uid-1": NOW - 40}), spent=spent
    )
    assert leaking(result, {"uid-1": "k8s"}) == (
        LeakingPod("runners", "linux-0", "", NOW, "Unnamed"),
        LeakingPod("runners", "linux-2", "", NOW - 2, "AbsentBriefly"),
        LeakingPod("runners", "linux-1", "", NOW - 40, "UnclaimedBriefly", "k8s"),
    )


def test_each_guard_that_is_reported_has_words_and_deleted_pods_come_last():
    assert set(WHY_IT_WAITS) | {Guard.FUSE_NOT_CLOSED} == {"", *REPORTED, *WAITS}
    deleted = [ReapedPod("u", "k8s", "runners", f"p-{at}", "r", False, NOW - at, "unclaimed for 90 s") for at in (9, 5)]
    found = leaked_pods([LeakingPod("runners", "q", "", NOW - 60, "Unnamed")], deleted, ReaperTerms("acme", "act"))
    assert [(each.pod, each.state) for each in found] == [("q", "Unnamed"), ("p-5", "deleted"), ("p-9", "deleted")]
    assert [each["pod"] for each in leaks_of_name(leak_documents("acme", found), "r")] == ["p-5", "p-9"]
    assert [each["pod"] for each in leaks_of_name(leak_documents("acme", found), "q")] == ["q"]


PROVING, STOPPED = proving(), proving(position=Position.STOPPED)
OF_POOL = "the fuse of the runners of k8s"
IS_STOPPED = f"{OF_POOL} is stopped; `ghapp resume acme --pool k8s` restarts it"
IS_PROVING = "{} is proving: the pod is deleted once that has closed by itself"
TURN = WHY_IT_WAITS[""]
PAUSE = Pause("mona", "a move", NOW - 9, NOW + 60)


@pytest.mark.parametrize(
    ("guard", "terms", "state", "text"),
    [
        ("", {}, "leaked", TURN),
        ("", {"pause": PAUSE}, "leaked", f"remediation is paused {pause_in_words(PAUSE)}"),
        ("", {"mode": "dry-run"}, "leaked", "`[leaks] mode` is dry-run: pods are reported, and none is deleted"),
        ("FuseNotClosed", {"fuses": {"*": PROVING}}, "FuseNotClosed", IS_PROVING.format("the fuse of all pools")),
        ("FuseNotClosed", {"fuses": {"k8s": PROVING}}, "FuseNotClosed", IS_PROVING.format(OF_POOL)),
        ("FuseNotClosed", {"fuses": {"k8s": STOPPED}}, "FuseNotClosed", IS_STOPPED),
        ("FuseNotClosed", {"fuses": {"*": PROVING, "k8s": STOPPED}}, "FuseNotClosed", IS_STOPPED),
        (
            "FuseNotClosed",
            {"fuses": {"*": STOPPED, "k8s": STOPPED}},
            "FuseNotClosed",
            "the fuse of all pools is stopped; `ghapp resume acme` restarts it",
        ),
        ("FuseNotClosed", {"fuses": {"*": Fuse(), "gpu": STOPPED}}, "leaked", TURN),
        (
            "FuseNotClosed",
            {"fuses": {"*": Fuse()}, "pause": PAUSE},
            "leaked",
            f"remediation is paused {pause_in_words(PAUSE)}",
        ),
        ("MassLeak", {"fuses": {"*": STOPPED}, "pause": PAUSE}, "MassLeak", WHY_IT_WAITS["MassLeak"]),
    ],
)
def test_what_keeps_a_leaked_pod_is_named_as_it_is_now(guard, terms, state, text):
    (found,) = leaked_pods(
        [LeakingPod("runners", "q", "", NOW - 60, guard, "k8s")], [], ReaperTerms("acme", "act")._replace(**terms)
    )
    assert (found.pool, found.state, found.text) == ("k8s", state, text)


@pytest.mark.parametrize("guard", ["UnclaimedBriefly", "AbsentBriefly"])
def test_a_pod_that_is_no_leak_yet_says_how_long_it_takes(guard):
    terms = ReaperTerms("acme", "act", grace_seconds=90.0)
    (found,) = leaked_pods([LeakingPod("runners", "q", "", NOW, guard)], [], terms)
    assert found.text.endswith(" for 1 min 30 s")


def test_a_pod_of_an_unknown_pool_is_kept_by_any_fuse():
    (found,) = leaked_pods(
        [LeakingPod("runners", "q", "", NOW, "FuseNotClosed")], [], ReaperTerms("acme", "act", fuses={"k8s": STOPPED})
    )
    assert found.text == IS_STOPPED


def test_an_overdue_reaper_reports_no_old_failure():
    assert status_at(at=NOW - 3600, failing_since=NOW - 7200) == ReaperStatus(4)
