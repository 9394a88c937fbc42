"""What successive summaries report of the cluster side."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghapp.health.cluster_summary import (
    BRIDGED_SECONDS,
    LASTING_SECONDS,
    MOST_DEATHS,
    ClusterSummary,
    StaleNamespace,
    continued,
    namespaces_of,
    phantom_since,
    stale_namespaces,
    summary_after,
    unread_since,
)
from ghapp.health.deaths.cause import Cause
from ghapp.health.deaths.correlation import WEEK_SECONDS
from ghapp.health.deaths.death import Death
from ghapp.health.pods.phantom_kinds import Phantom, PhantomKind, PhantomReason, key
from ghapp.health.pods.reconcile import find_phantoms
from ghapp.health.runner.verdict import Limits
from ghapp.settings import PoolSettings
from ghapp.store.pods import NamespaceView
from tests.health.builders import LONG_AGO, MICROSECOND, NOW, lost, online, present, survey
from tests.health.pods.builders import NAMESPACE, container, pod, pod_of_object, runner_object

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


def look(runners, seen, rules=(POOL,), **changes):
    found = find_phantoms("acme", runners, survey(**changes), seen, rules, NOW, LIMITS)
    return [(each.kind.value, each.subject, each.reason.value) for each in found]


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
        "all fit",
        "a stranger",
        "lost",
        "known from deliveries alone",
        "overlooked by a list that churned",
        "job long over",
        "job just over",
        "removed by its controller",
        "its machine is gone",
        "failed",
        "its pod is gone",
    ],
)
def test_what_does_not_fit_together_is_found(runners, seen, found):
    assert look(runners, {NAMESPACE: seen}) == found


def test_ages_are_computed_by_the_clock_that_wrote_them():
    """Five minutes behind ours, it makes a pod of this moment look five minutes old."""
    just_made = pod(created_at=NOW - 301, runner=container(running_since=NOW - 301))
    assert look([], {NAMESPACE: view(just_made)._replace(ahead=-300.0)}) == []
    assert look([], {NAMESPACE: view(just_made)}) != []


@pytest.mark.parametrize(("age", "found"), [(119.9, 1), (120.0, 0), (-119.9, 1), (-120.0, 0)])
def test_an_old_view_says_nothing(age, found):
    assert len(look([], {NAMESPACE: view(pod(), at=NOW - age)})) == found


def test_what_github_has_not_reported_lately_counts_for_nothing():
    assert look([], {NAMESPACE: view(pod())}, swept_at=NOW - 300) != []
    assert look([], {NAMESPACE: view(pod())}, swept_at=NOW - 300 - MICROSECOND) == []
    assert look([], {NAMESPACE: view(pod())}, swept_at=None) == []


def test_a_namespace_that_is_not_seen_hides_no_other_and_is_not_spoken_of():
    elsewhere = PoolSettings("acme", "gpu", ("gpu",), "pods", namespace="gpu")
    gone = present(2, labels=("gpu",), custom_labels=("gpu",), ephemeral=True)
    there = online(3, labels=("gpu",), custom_labels=("gpu",))
    old = view(pod(name="linux-3", namespace="gpu"), at=NOW - 120)
    seen = {NAMESPACE: view(pod(name="linux-9")), "gpu": old}
    assert [name for _, name, _ in look([gone, there], seen, (POOL, elsewhere))] == ["linux-9"]
    seen["gpu"] = old._replace(seen_at=NOW)
    assert [name for _, name, _ in look([gone, there], seen, (POOL, elsewhere))] == ["linux-2", "linux-9"]


def test_a_runner_of_another_namespace_is_not_missed_in_this_one():
    stray = present(2, ephemeral=True)
    seen = {"elsewhere": view(pod(namespace="elsewhere"))}
    assert look([online(1), stray], seen) == [], "the pool's pods are not looked for there"


def test_where_not_one_object_may_be_listed_no_pod_is_reported_without_its_own():
    assert look([online()], {NAMESPACE: view(pod_of_object())}) == []
    other = runner_object(name="linux-2", uid="object-2", phase="Finished")
    found = look([online()], {NAMESPACE: view(pod_of_object(), other)})
    assert found == [("pod-without-object", "linux-1", "ObjectGone")]


@pytest.mark.parametrize(
    ("seen_at", "found"),
    [(NOW - 119.9, []), (NOW - 120, [StaleNamespace("runners", NOW - 120)]), (None, [StaleNamespace("runners", None)])],
)
def test_an_unseen_namespace_is_named_with_the_time_it_was_seen(seen_at, found):
    assert stale_namespaces({"runners": seen_at}, NOW) == found


def test_namespaces_are_named_once():
    rules = [
        PoolSettings("acme", name, namespace=namespace) for name, namespace in [("a", "x"), ("b", "x"), ("c", None)]
    ]
    assert namespaces_of(rules) == ["x"]


def looks(*times, found=(STUCK,)):
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
        "for almost long enough",
        "long enough",
        "with a gap",
        "with too long a gap",
        "a clock that went back",
    ],
)
def test_a_phantom_is_reported_when_it_was_found_for_a_while(times, count):
    assert len(looks(*times).phantoms) == count


def test_what_a_single_look_does_not_find_starts_again():
    side = summary_after(looks(NOW, NOW + 60), [], [], NOW + 90)
    side = summary_after(side, [STUCK], [], NOW + 130)
    assert side.phantoms == ()
    assert side.since == {key(STUCK): NOW + 130}


def test_a_phantom_says_since_when_it_was_found():
    side = looks(NOW, NOW + 200)
    assert phantom_since(side, STUCK) == NOW


def test_deaths_of_the_last_week_are_kept_latest_first_and_clean_exits_are_not():
    recent = [
        death("a", NOW - WEEK_SECONDS),
        death("b", NOW - WEEK_SECONDS - MICROSECOND),
        death("c", NOW, Cause.CLEAN_EXIT),
        death("d", NOW),
    ]
    assert [each.runner_name for each in summary_after(None, [], recent, NOW).deaths] == ["d", "a"]


def test_a_death_that_is_read_again_counts_once_and_by_its_latest_cause():
    side = summary_after(None, [], [death("a"), death("b")], NOW)
    mended = summary_after(side, [], [death("a", cause=Cause.HOST_OOM), death("b", cause=Cause.CLEAN_EXIT)], NOW + 1)
    assert [(each.runner_name, each.cause) for each in mended.deaths] == [("a", Cause.HOST_OOM)]


def test_two_deaths_of_one_name_are_two():
    assert len(summary_after(None, [], [death(at=NOW - 1), death(at=NOW)], NOW).deaths) == 2


@pytest.mark.parametrize(
    ("before", "since"),
    [
        (None, NOW - WEEK_SECONDS),
        (ClusterSummary(NOW - 30, deaths_since=NOW - 30 - WEEK_SECONDS), NOW - 930),
        (ClusterSummary(NOW - 30), NOW - WEEK_SECONDS),
    ],
    ids=["the first look", "a later one", "one after the version that kept a day"],
)
def test_only_what_may_have_come_since_is_read(before, since):
    assert unread_since(before, NOW) == since


@given(st.lists(st.tuples(st.integers(0, 40), st.sampled_from(list(Cause))), max_size=60), st.integers(1, 6))
def test_reading_deaths_in_parts_is_as_good_as_reading_them_at_once(made, parts):
    deaths = [death(f"r{number}", NOW - age, cause) for number, (age, cause) in enumerate(made)]
    side = None
    for part in range(parts):
        side = summary_after(side, [], deaths[part::parts], NOW)
    assert side.deaths == summary_after(None, [], deaths, NOW).deaths


def test_what_is_kept_has_a_bound():
    many = [death(f"r{number}", NOW - number) for number in range(MOST_DEATHS + 1)]
    kept = summary_after(None, [], many, NOW).deaths
    assert (len(kept), kept[0].runner_name) == (MOST_DEATHS, "r0")


def told_side():
    """A reported phantom, found from NOW on."""
    side = None
    for at in (NOW, NOW + 60, NOW + 120):
        side = summary_after(continued(side, at), [STUCK], [], at)
    assert side.phantoms == (STUCK,)
    return side


@pytest.mark.parametrize(
    ("is_blind", "minutes", "since", "is_told"),
    [(True, 1, NOW, True), (True, 9, NOW, True), (True, 11, None, False), (False, 1, None, False)],
    ids=["blind for a minute", "blind for nine", "blind for too long", "it was looked for, and not there"],
)
def test_a_phantoms_since_survives_a_time_without_a_view(is_blind, minutes, since, is_told):
    side = told_side()
    for minute in range(1, minutes + 1):
        side = summary_after(continued(side, at := NOW + 120 + 60 * minute), [], [], at, is_blind=is_blind)
        assert side.phantoms == ()
    side = summary_after(continued(side, at := at + 60), [STUCK], [], at)
    assert side.since[key(STUCK)] == (at if since is None else since)
    assert (side.phantoms == (STUCK,)) is is_told


def test_an_unreported_phantom_starts_again_after_a_time_without_a_view():
    side = summary_after(summary_after(None, [STUCK], [], NOW), [], [], NOW + 60, is_blind=True)
    assert summary_after(side, [STUCK], [], NOW + 120).since[key(STUCK)] == NOW + 120
