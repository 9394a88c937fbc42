"""What a view shows of a runner whose registration is deleted, and when a view proves nothing."""

import pytest

from ghapp.health.pods.observed_remains import SETTLED_SECONDS, SUCCESSOR_SECONDS, by_namespace, observed_remains
from ghapp.health.pods.pod import FRESH_SECONDS, Ended
from ghapp.health.runner.remains import Remains, RemainsKind
from ghapp.settings import PoolSettings
from ghapp.store.pods import NamespaceView
from tests.health.builders import LONG_AGO, MICROSECOND, NOW, lost, online
from tests.health.pods.builders import NAMESPACE, container, pod, pod_of_object, runner_object

POOL = "linux-4vcpu"
KNOWN = {(POOL, NAMESPACE)}
ENDED = container(running_since=None, ended=Ended(exit_code=0))
GOING = {"deleting_since": NOW - 5}


def rules(replacer="arc", **changes):
    rule = {"labels": (POOL,), "replacer": replacer, "namespace": NAMESPACE} | changes
    return (PoolSettings("acme", POOL, **rule),)


def view(*things, **changes):
    pods = {each.name: each for each in things if hasattr(each, "node")}
    objects = {each.name: each for each in things if not hasattr(each, "node")}
    return NamespaceView(pods, objects, NOW)._replace(**changes)


def shown(*things, evidence=None, replacer="arc", places=KNOWN, now=NOW, **changes):
    """What is shown of runner 1; None for nothing."""
    views = {NAMESPACE: view(*things, **changes)}
    return observed_remains([evidence or lost()], views, rules(replacer), places, now).get(1)


@pytest.mark.parametrize(
    ("things", "kind"),
    [
        ((), RemainsKind.NOTHING),
        ((runner_object(), pod_of_object()), RemainsKind.RUNNING),
        ((runner_object(), pod_of_object(runner=ENDED)), RemainsKind.ENDED),
        ((runner_object(), pod_of_object(runner=None)), RemainsKind.ENDED),
        ((runner_object(),), RemainsKind.NO_POD),
        ((runner_object(**GOING), pod_of_object()), RemainsKind.TERMINATING),
        ((runner_object(**GOING),), RemainsKind.TERMINATING),
        ((pod_of_object(),), RemainsKind.RUNNING),
        ((pod_of_object(**GOING),), RemainsKind.TERMINATING),
        ((runner_object(), pod_of_object(**GOING)), RemainsKind.RUNNING),
        ((runner_object(name="arc-1"), pod_of_object(name="arc-1")), RemainsKind.RUNNING),
        ((runner_object(runner_name=""), pod_of_object()), RemainsKind.RUNNING),
        ((runner_object(runner_name="linux-2"),), RemainsKind.NOTHING),
        ((runner_object(name="arc-1"), runner_object(name="arc-2")), None),
    ],
    ids=[
        "nothing", "a container that runs", "one that ended", "one that never started", "an object without a pod",
        "an object that is deleted", "the same without a pod", "a pod whose object is gone", "the same, on its way",
        "a pod that is deleted under its object", "an object of another name", "an object that names no runner",
        "its name is another runner's", "two objects bear it",
    ],
)  # fmt: skip
def test_what_remains_under_arc(things, kind):
    observed = shown(*things)
    assert observed == (None if kind is None else (kind, NOW))


@pytest.mark.parametrize(
    ("things", "kind"),
    [
        ((), RemainsKind.NOTHING),
        ((pod(),), RemainsKind.RUNNING),
        ((pod(runner=ENDED),), RemainsKind.ENDED),
        ((pod(**GOING),), RemainsKind.TERMINATING),
        ((runner_object(),), RemainsKind.NOTHING),
    ],
    ids=["nothing", "a container that runs", "one that ended", "a pod that is deleted", "an object of ARC's"],
)
def test_what_remains_of_a_pod_of_a_controller_of_ones_own(things, kind):
    assert shown(*things, replacer="pods").kind is kind


@pytest.mark.parametrize("replacer", ["cloudevents", "none"])
def test_nothing_is_reported_about_other_pools(replacer):
    assert shown(pod(), replacer=replacer) is None


@pytest.mark.parametrize(
    ("age", "is_told"), [(FRESH_SECONDS - 1, True), (FRESH_SECONDS, False), (1 - FRESH_SECONDS, True)]
)
def test_only_a_fresh_view_counts(age, is_told):
    assert (shown(seen_at=NOW - age) is not None) is is_told


def test_a_view_is_as_old_as_it_is_and_never_of_the_future():
    assert shown(seen_at=NOW - 60).at == NOW - 60
    assert shown(seen_at=NOW + 60).at == NOW


@pytest.mark.parametrize(
    ("things", "first_seen", "at"),
    [
        ((), LONG_AGO, NOW - 10),
        ((), NOW - 60, NOW - 10),
        ((), NOW - 60 + MICROSECOND, NOW - 60),
        ((runner_object(**GOING),), LONG_AGO, NOW - 10),
        ((runner_object(),), LONG_AGO, NOW - 60),
        ((runner_object(), pod_of_object()), LONG_AGO, NOW - 60),
    ],
    ids=["gone", "known just then", "younger than the view", "on its way", "an object without a pod", "it runs"],
)
def test_what_was_gone_before_the_registration_went_is_gone_since(things, first_seen, at):
    """The view is a minute old, and the registration went ten seconds ago."""
    evidence = lost(first_seen=first_seen, absent_since=NOW - 10, missing_at=None)
    assert shown(*things, evidence=evidence, seen_at=NOW - 60).at == at


def test_while_objects_cannot_be_listed_nothing_is_reported_under_arc():
    assert shown(lists_objects=False) is None
    assert shown(pod_of_object(), lists_objects=False) is None
    assert shown(pod(), replacer="pods", lists_objects=False).kind is RemainsKind.RUNNING


def test_nothing_is_missed_where_the_pool_was_never_seen():
    assert shown(places=set()) is None
    assert shown(runner_object(), places=set()).kind is RemainsKind.NO_POD, "it is seen there now"
    assert shown(places={("another", NAMESPACE), (POOL, "elsewhere")}) is None


@pytest.mark.parametrize(("later", "kind"), [(SUCCESSOR_SECONDS, RemainsKind.RUNNING), (SUCCESSOR_SECONDS + 1, None)])
@pytest.mark.parametrize("ahead", [0.0, 3600.0, -3600.0])
def test_what_was_made_long_after_the_registration_went_is_another(ahead, later, kind):
    """By the cluster's clock, which may be off by hours."""
    made = {"created_at": NOW - 600 + later + ahead}
    evidence = lost(absent_since=NOW - 600)
    for things, replacer in (((runner_object(**made), pod_of_object()), "arc"), ((pod(**made),), "pods")):
        observed = shown(*things, evidence=evidence, replacer=replacer, ahead=ahead)
        assert (observed and observed.kind) is kind


def remains(kind, seconds):
    return Remains(kind, NOW - seconds, NOW)


@pytest.mark.parametrize(
    ("evidence", "is_asked_for"),
    [
        (lost(), True),
        (online(), False),
        (lost(retired_at=NOW), False),
        (lost(reregistered_as=2), False),
        (lost(replaced_at=NOW), False),
        (lost(not_needed_at=NOW), False),
        (lost(remains=remains(RemainsKind.NOTHING, SETTLED_SECONDS - MICROSECOND)), True),
        (lost(remains=remains(RemainsKind.NOTHING, SETTLED_SECONDS)), False),
        (lost(remains=remains(RemainsKind.RUNNING, NOW - LONG_AGO)), True),
    ],
    ids=[
        "lost", "registered", "retired", "registered anew", "replaced", "written off", "nothing remains",
        "nothing has remained for long", "it runs on",
    ],
)  # fmt: skip
def test_only_runners_are_queried_for_which_a_view_may_show_something_new(evidence, is_asked_for):
    assert by_namespace([evidence], rules()) == ({NAMESPACE: [evidence]} if is_asked_for else {})


def test_a_pool_without_a_namespace_is_not_looked_for():
    assert by_namespace([lost()], rules(namespace=None)) == {}
