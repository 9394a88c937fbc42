"""What successive summaries report about the cluster."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghapp.deaths.cause import Cause
from ghapp.deaths.cluster_summary import (
    BRIDGED_SECONDS,
    LASTING_SECONDS,
    MOST_CHANGES,
    MOST_DEATHS,
    ClusterSummary,
    StaleNamespace,
    continued,
    phantom_since,
    possible_phantoms,
    stale_namespaces,
    summary_after,
    unread_since,
)
from ghapp.deaths.death import WEEK_SECONDS, Death
from ghapp.pods.phantom_kinds import Phantom, PhantomKind, PhantomReason, key
from ghapp.pods.reconcile import find_phantoms
from ghapp.pods.store import NamespaceView
from ghapp.runners.verdict import Limits
from ghapp.settings import PoolSettings
from tests.rules.builders import LONG_AGO, MICROSECOND, NOW, lost, online, present, survey
from tests.rules.pods.builders import NAMESPACE, container, pod, pod_of_object, runner_object

LIMITS = Limits()
POOL = PoolSettings("acme", "linux-4vcpu", ("linux-4vcpu",), "arc", namespace=NAMESPACE)
STUCK = Phantom(
    PhantomKind.FAILED_OBJECT, "linux-1", PhantomReason.FAILED_COUNTS_AS_CAPACITY, "Delete it.", namespace=NAMESPACE
)


def view(*seen, at=NOW):
    pods = {each.name: each for each in seen if type(each).__name__ == "Pod"}
    return NamespaceView(
        pods, {each.name: each for each in seen if each.name not in pods or each is not pods[each.name]}, at
    )


def phantoms_of(runners, seen, rules=(POOL,), **changes):
    found = find_phantoms("acme", runners, survey(**changes), seen, rules, NOW, LIMITS)
    return [(each.kind.value, each.subject, each.reason.value) for each in found if each.is_old]


def death(name="linux-1", at=NOW, cause=Cause.CRASH, **changes):
    return Death(name, name, "node-a", at, 1, None, "Error", cause, "Look.")._replace(**changes)


@pytest.mark.parametrize(
    ("runners", "seen", "found"),
    [
        ([online()], view(pod_of_object(), runner_object()), []),
        ([], view(pod()), [("pod-unknown-to-github", "linux-1", "NotRegistered")]),
        ([lost()], view(pod()), [("pod-unknown-to-github", "linux-1", "NotRegistered")]),
        ([online(registered=False)], view(pod()), [("pod-unknown-to-github", "linux-1", "NotRegistered")]),
        ([present(missing_from_partial_list_at=NOW, listed=False)], view(pod()), []),
        (
            [lost(ephemeral=True, job_id=42, job_ended_at=LONG_AGO)],
            view(pod()),
            [("pod-unknown-to-github", "linux-1", "HangsAfterJob")],
        ),
        ([lost(ephemeral=True, job_id=42, job_ended_at=NOW)], view(pod()), []),
        ([lost(retired_at=LONG_AGO)], view(pod()), [("pod-unknown-to-github", "linux-1", "HangsAfterJob")]),
        (
            [online(1), present(2, ephemeral=True)],
            view(pod()),
            [("runner-without-pod", "linux-2", "MachineGone")],
        ),
        (
            [online()],
            view(pod(), runner_object(phase="Failed")),
            [("failed-object", "linux-1", "FailedCountsAsCapacity")],
        ),
        ([online()], view(runner_object()), [("object-without-pod", "linux-1", "PodLost")]),
    ],
    ids=[
        "healthy",
        "unknown to GitHub",
        "lost",
        "known from deliveries alone",
        "missing from a churned list",
        "job long over",
        "job just over",
        "removed by its controller",
        "its machine is deleted",
        "failed",
        "its pod is deleted",
    ],
)
def test_a_mismatch_of_runners_pods_and_objects_is_found(runners, seen, found):
    assert phantoms_of(runners, {NAMESPACE: seen}) == found


def test_ages_are_computed_by_the_clock_that_wrote_them():
    """The cluster's clock is five minutes behind, so the creation time of a new pod looks five minutes old."""
    just_made = pod(created_at=NOW - 301, runner=container(running_since=NOW - 301))
    assert phantoms_of([], {NAMESPACE: view(just_made)._replace(ahead=-300.0)}) == []
    assert phantoms_of([], {NAMESPACE: view(just_made)}) != []


@pytest.mark.parametrize(("age", "found"), [(119.9, 1), (120.0, 0), (-119.9, 1), (-120.0, 0)])
def test_an_old_view_reports_nothing(age, found):
    assert len(phantoms_of([], {NAMESPACE: view(pod(), at=NOW - age)})) == found


def test_an_old_list_reports_nothing():
    assert phantoms_of([], {NAMESPACE: view(pod())}, swept_at=NOW - 300) != []
    assert phantoms_of([], {NAMESPACE: view(pod())}, swept_at=NOW - 300 - MICROSECOND) == []
    assert phantoms_of([], {NAMESPACE: view(pod())}, swept_at=None) == []


def test_an_unseen_namespace_hides_no_other_and_reports_nothing():
    elsewhere = PoolSettings("acme", "gpu", ("gpu",), "pods", namespace="gpu")
    offline = present(2, labels=("gpu",), custom_labels=("gpu",), ephemeral=True)
    there = online(3, labels=("gpu",), custom_labels=("gpu",))
    old = view(pod(name="linux-3", namespace="gpu"), at=NOW - 120)
    seen = {NAMESPACE: view(pod(name="linux-9")), "gpu": old}
    assert [name for _, name, _ in phantoms_of([offline, there], seen, (POOL, elsewhere))] == ["linux-9"]
    seen["gpu"] = old._replace(seen_at=NOW)
    assert [name for _, name, _ in phantoms_of([offline, there], seen, (POOL, elsewhere))] == ["linux-2", "linux-9"]


def test_a_runner_of_another_namespace_is_not_reported_as_missing_here():
    stray = present(2, ephemeral=True)
    seen = {"elsewhere": view(pod(namespace="elsewhere"))}
    assert phantoms_of([online(1), stray], seen) == [], "the pool's pods belong to another namespace"


def test_no_pod_is_reported_without_its_object_while_no_object_is_listed():
    assert phantoms_of([online()], {NAMESPACE: view(pod_of_object())}) == []
    other = runner_object(name="linux-2", uid="object-2", phase="Finished")
    found = phantoms_of([online()], {NAMESPACE: view(pod_of_object(), other)})
    assert found == [("pod-without-object", "linux-1", "ObjectGone")]


@pytest.mark.parametrize(
    ("seen_at", "found"),
    [(NOW - 119.9, []), (NOW - 120, [StaleNamespace("runners", NOW - 120)]), (None, [StaleNamespace("runners", None)])],
)
def test_an_unseen_namespace_is_named_with_the_time_it_was_seen(seen_at, found):
    assert stale_namespaces({"runners": seen_at}, NOW) == found


def summary_of_reads(*times, found=(STUCK,)):
    side = None
    for at in times:
        side = summary_after(continued(side, at), found, [], at)
    return side


@pytest.mark.parametrize(
    ("times", "count"),
    [
        ([NOW], 0),
        ([NOW, NOW + LASTING_SECONDS - MICROSECOND], 0),
        ([NOW, NOW + LASTING_SECONDS], 1),
        ([NOW, NOW + BRIDGED_SECONDS], 1),
        ([NOW, NOW + BRIDGED_SECONDS + MICROSECOND], 0),
        ([NOW, NOW - 1, NOW + LASTING_SECONDS - 1 - MICROSECOND], 0),
    ],
    ids=[
        "once",
        "almost long enough",
        "long enough",
        "with a gap",
        "with too long a gap",
        "a clock that went back",
    ],
)
def test_a_phantom_is_reported_once_it_was_found_for_lasting_seconds(times, count):
    assert len(summary_of_reads(*times).phantoms) == count


@pytest.mark.parametrize("every", [15, 20])
@pytest.mark.parametrize("missed", [0.0, 19.9], ids=["found at once", "found just before the next check"])
def test_a_lost_pod_is_reported_within_about_two_minutes_and_not_while_arc_waits_before_it_makes_another(every, missed):
    """ARC waits 80 s at most. The age of the object, a day or two minutes, changes nothing."""
    reported, side, at = [], None, NOW + min(missed, every)
    running = runner_object(created_at=NOW - 20)
    while at <= NOW + 150:
        seen = {NAMESPACE: view(running, at=at)}
        found = find_phantoms("acme", [online()], survey(swept_at=at), seen, [POOL], at, LIMITS)
        side = summary_after(continued(side, at), found, [], at)
        reported += [at - NOW for _ in side.phantoms]
        at += every
    assert 100 <= reported[0] <= 140


def test_a_phantom_missing_from_one_read_starts_again():
    side = summary_after(summary_of_reads(NOW, NOW + 60), [], [], NOW + 90)
    side = summary_after(side, [STUCK], [], NOW + 130)
    assert side.phantoms == ()
    assert side.since == {key(STUCK): NOW + 130}


def test_a_phantom_has_the_time_since_which_it_was_found():
    side = summary_of_reads(NOW, NOW + 200)
    assert phantom_since(side, STUCK) == NOW


def test_deaths_of_the_last_week_are_kept_latest_first_and_clean_exits_are_not():
    recent = [
        death("a", NOW - WEEK_SECONDS),
        death("b", NOW - WEEK_SECONDS - MICROSECOND),
        death("c", NOW, Cause.CLEAN_EXIT),
        death("d", NOW),
    ]
    assert [each.runner_name for each in summary_after(None, [], recent, NOW).deaths] == ["d", "a"]


def test_a_death_read_again_counts_once_with_its_latest_cause():
    side = summary_after(None, [], [death("a"), death("b")], NOW)
    corrected = summary_after(side, [], [death("a", cause=Cause.HOST_OOM), death("b", cause=Cause.CLEAN_EXIT)], NOW + 1)
    assert [(each.runner_name, each.cause) for each in corrected.deaths] == [("a", Cause.HOST_OOM)]


def test_two_deaths_of_one_name_are_two():
    assert len(summary_after(None, [], [death(at=NOW - 1), death(at=NOW)], NOW).deaths) == 2


@pytest.mark.parametrize(
    ("before", "since"),
    [
        (None, NOW - WEEK_SECONDS),
        (ClusterSummary(NOW - 30, deaths_since=NOW - 30 - WEEK_SECONDS), NOW - 930),
        (ClusterSummary(NOW - 30), NOW - WEEK_SECONDS),
    ],
    ids=["the first read", "a later read", "the first read after an upgrade"],
)
def test_only_possibly_new_deaths_are_read(before, since):
    assert unread_since(before, NOW) == since


@given(st.lists(st.tuples(st.integers(0, 40), st.sampled_from(list(Cause))), max_size=60), st.integers(1, 6))
def test_deaths_read_in_parts_give_the_same_summary_as_deaths_read_at_once(made, parts):
    deaths = [death(f"r{number}", NOW - age, cause) for number, (age, cause) in enumerate(made)]
    side = None
    for part in range(parts):
        side = summary_after(side, [], deaths[part::parts], NOW)
    assert side.deaths == summary_after(None, [], deaths, NOW).deaths


def test_a_limited_number_of_deaths_is_kept():
    many = [death(f"r{number}", NOW - number) for number in range(MOST_DEATHS + 1)]
    kept = summary_after(None, [], many, NOW).deaths
    assert (len(kept), kept[0].runner_name) == (MOST_DEATHS, "r0")


def summary_with_phantom():
    """A reported phantom, found from NOW on."""
    side = None
    for at in (NOW, NOW + 60, NOW + 120):
        side = summary_after(continued(side, at), [STUCK], [], at)
    assert side.phantoms == (STUCK,)
    return side


@pytest.mark.parametrize(
    ("is_blind", "minutes", "since", "is_reported"),
    [(True, 1, NOW, True), (True, 9, NOW, True), (True, 11, None, False), (False, 1, None, False)],
    ids=["blind for a minute", "blind for nine minutes", "blind for too long", "not found"],
)
def test_the_start_of_a_phantom_survives_a_time_without_a_view(is_blind, minutes, since, is_reported):
    side = summary_with_phantom()
    for minute in range(1, minutes + 1):
        side = summary_after(continued(side, at := NOW + 120 + 60 * minute), [], [], at, is_blind=is_blind)
        assert side.phantoms == ()
    side = summary_after(continued(side, at := at + 60), [STUCK], [], at)
    assert side.since[key(STUCK)] == (at if since is None else since)
    assert (side.phantoms == (STUCK,)) is is_reported


def test_an_unreported_phantom_starts_again_after_a_time_without_a_view():
    side = summary_after(summary_after(None, [STUCK], [], NOW), [], [], NOW + 60, is_blind=True)
    assert summary_after(side, [STUCK], [], NOW + 120).since[key(STUCK)] == NOW + 120


def test_a_phantom_is_possible_from_its_first_check_until_it_is_reported():
    first = summary_after(None, [STUCK], [], NOW)
    assert (possible_phantoms(first), first.phantoms) == ({"linux-1"}, ())
    later = summary_after(first, [STUCK], [], NOW + LASTING_SECONDS)
    assert (possible_phantoms(later), later.phantoms) == (set(), (STUCK,))
    assert possible_phantoms(summary_after(first, [], [], NOW + 20)) == set()


FOUND, OVER = (STUCK.subject, STUCK.reason, False), (STUCK.subject, STUCK.reason, True)


@pytest.mark.parametrize(
    ("after", "changes"),
    [
        ([([STUCK], False)], [FOUND]),
        ([([], False)], [FOUND, OVER]),
        ([([], True)], [FOUND]),
        ([([], True), ([STUCK], False)], [FOUND]),
        ([([], True), ([], False)], [FOUND, (STUCK.subject, "", True)]),
    ],
    ids=["it lasts", "it ended", "not seen", "not seen for a while", "it ended while it was not seen"],
)
def test_a_phantom_that_is_reported_and_one_that_ended_is_a_change_once(after, changes):
    side = summary_with_phantom()
    for minute, (found, is_blind) in enumerate(after):
        side = summary_after(side, found, [], NOW + 180 + 60 * minute, is_blind=is_blind)
    assert [(each.subject, each.reason, each.is_over) for each in side.changes] == changes
    assert side.changes[0].at == NOW + 120, "when it was reported"


def test_a_limited_number_of_changes_is_kept():
    many = [STUCK._replace(subject=f"linux-{number}") for number in range(MOST_CHANGES + 1)]
    side = summary_after(summary_after(None, many, [], NOW), many, [], NOW + LASTING_SECONDS)
    assert [each.subject for each in side.changes] == [each.subject for each in many[1:]]
