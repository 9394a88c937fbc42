"""Which pod or object a view shows for a lost runner, and when a view proves nothing."""

import pytest

from ghapp.pods.observed_remains import SETTLED_SECONDS, SUCCESSOR_SECONDS, by_namespace, observed_remains
from ghapp.pods.pod import FRESH_SECONDS, Ended
from ghapp.pods.store import NamespaceView
from ghapp.runners.remains import Remains, RemainsKind
from ghapp.settings import PoolSettings
from tests.rules.builders import LONG_AGO, MICROSECOND, NOW, lost, online
from tests.rules.pods.builders import NAMESPACE, container, pod, pod_of_object, runner_object

POOL = "linux-4vcpu"
KNOWN = {(POOL, NAMESPACE)}
ENDED = container(running_since=None, ended=Ended(exit_code=0))
DELETING = {"deleting_since": NOW - 5}


def rules(replacer="arc", **changes):
    rule = {"labels": (POOL,), "replacer": replacer, "namespace": NAMESPACE} | changes
    return (PoolSettings("acme", POOL, **rule),)


def view(*things, **changes):
    pods = {each.name: each for each in things if hasattr(each, "node")}
    objects = {each.name: each for each in things if not hasattr(each, "node")}
    return NamespaceView(pods, objects, NOW)._replace(**changes)


def shown(*things, evidence=None, replacer="arc", places=KNOWN, now=NOW, **changes):
    """The remains that the view shows for runner 1, or None."""
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
        ((runner_object(**DELETING), pod_of_object()), RemainsKind.TERMINATING),
        ((runner_object(**DELETING),), RemainsKind.TERMINATING),
        ((pod_of_object(),), RemainsKind.RUNNING),
        ((pod_of_object(**DELETING),), RemainsKind.TERMINATING),
        ((runner_object(), pod_of_object(**DELETING)), RemainsKind.RUNNING),
        ((runner_object(name="arc-1"), pod_of_object(name="arc-1")), RemainsKind.RUNNING),
        ((runner_object(runner_name=""), pod_of_object()), RemainsKind.RUNNING),
        ((runner_object(runner_name="linux-2"),), RemainsKind.NOTHING),
        ((runner_object(name="arc-1"), runner_object(name="arc-2")), None),
    ],
    ids=[
        "nothing", "a running container", "an ended container", "a container never started", "an object without a pod",
        "a terminating object", "a terminating object without a pod", "a pod without an object", "a terminating pod without an object",
        "a terminating pod of an object", "an object of another name", "an object that names no runner",
        "an object that names another runner", "two objects of one runner",
    ],
)  # fmt: skip
def test_remains_of_a_runner_of_arc(things, kind):
    observed = shown(*things)
    assert observed == (None if kind is None else (kind, NOW))


@pytest.mark.parametrize(
    ("things", "kind"),
    [
        ((), RemainsKind.NOTHING),
        ((pod(),), RemainsKind.RUNNING),
        ((pod(runner=ENDED),), RemainsKind.ENDED),
        ((pod(**DELETING),), RemainsKind.TERMINATING),
        ((runner_object(),), RemainsKind.NOTHING),
    ],
    ids=["nothing", "a running container", "an ended container", "a terminating pod", "an object of ARC"],
)
def test_remains_of_a_runner_of_an_own_controller(things, kind):
    assert shown(*things, replacer="pods").kind is kind


@pytest.mark.parametrize("replacer", ["cloudevents", "none"])
def test_pools_with_other_replacers_have_no_remains(replacer):
    assert shown(pod(), replacer=replacer) is None


@pytest.mark.parametrize(
    ("age", "is_shown"), [(FRESH_SECONDS - 1, True), (FRESH_SECONDS, False), (1 - FRESH_SECONDS, True)]
)
def test_an_old_view_shows_nothing(age, is_shown):
    assert (shown(seen_at=NOW - age) is not None) is is_shown


def test_the_time_of_a_view_is_never_in_the_future():
    assert shown(seen_at=NOW - 60).at == NOW - 60
    assert shown(seen_at=NOW + 60).at == NOW


@pytest.mark.parametrize(
    ("things", "first_seen", "at"),
    [
        ((), LONG_AGO, NOW - 10),
        ((), NOW - 60, NOW - 10),
        ((), NOW - 60 + MICROSECOND, NOW - 60),
        ((runner_object(**DELETING),), LONG_AGO, NOW - 10),
        ((runner_object(),), LONG_AGO, NOW - 60),
        ((runner_object(), pod_of_object()), LONG_AGO, NOW - 60),
    ],
    ids=[
        "nothing remains",
        "first seen at the time of the view",
        "first seen after the view",
        "terminating",
        "an object without a pod",
        "running",
    ],
)
def test_remains_that_ended_before_the_registration_was_lost_are_dated_by_the_loss(things, first_seen, at):
    """The view is a minute old, and the registration was lost ten seconds ago."""
    evidence = lost(first_seen=first_seen, absent_since=NOW - 10, first_404_at=None)
    assert shown(*things, evidence=evidence, seen_at=NOW - 60).at == at


def test_arc_pools_have_no_remains_while_objects_cannot_be_listed():
    assert shown(lists_objects=False) is None
    assert shown(pod_of_object(), lists_objects=False) is None
    assert shown(pod(), replacer="pods", lists_objects=False).kind is RemainsKind.RUNNING


def test_remains_are_not_missing_in_a_namespace_where_the_pool_was_never_seen():
    assert shown(places=set()) is None
    assert shown(runner_object(), places=set()).kind is RemainsKind.NO_POD, "the object is in the namespace now"
    assert shown(places={("another", NAMESPACE), (POOL, "elsewhere")}) is None


@pytest.mark.parametrize(("later", "kind"), [(SUCCESSOR_SECONDS, RemainsKind.RUNNING), (SUCCESSOR_SECONDS + 1, None)])
@pytest.mark.parametrize("ahead", [0.0, 3600.0, -3600.0])
def test_an_object_created_long_after_the_loss_belongs_to_another_runner(ahead, later, kind):
    """The creation time is by the cluster's clock, which may be off by hours."""
    made = {"created_at": NOW - 600 + later + ahead}
    evidence = lost(absent_since=NOW - 600)
    for things, replacer in (((runner_object(**made), pod_of_object()), "arc"), ((pod(**made),), "pods")):
        observed = shown(*things, evidence=evidence, replacer=replacer, ahead=ahead)
        assert (observed and observed.kind) is kind


def remains(kind, seconds):
    return Remains(kind, NOW - seconds, NOW)


@pytest.mark.parametrize(
    ("evidence", "is_queried"),
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
        "lost", "registered", "retired", "registered again", "replaced", "not needed", "nothing remains",
        "nothing has remained for long", "still running",
    ],
)  # fmt: skip
def test_only_runners_for_which_a_view_may_show_a_change_are_queried(evidence, is_queried):
    assert by_namespace([evidence], rules()) == ({NAMESPACE: [evidence]} if is_queried else {})


def test_a_pool_without_a_namespace_is_not_queried():
    assert by_namespace([lost()], rules(namespace=None)) == {}
