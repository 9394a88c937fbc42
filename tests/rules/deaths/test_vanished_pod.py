"""Whether a runner worked in a pod that was last seen before it ran."""

import pytest

from ghapp.deaths.death import BEFORE_ITS_POD_SECONDS, has_worked
from tests.rules.builders import LONG_AGO, MICROSECOND, NOW, lost
from tests.rules.pods.builders import pod

MADE = NOW - 600
PENDING = pod(created_at=MADE, runner=None)
UNUSED = {"was_online": False, "online": False, "busy": False, "job_id": None, "first_seen": MADE}


@pytest.mark.parametrize(
    ("seen", "worked"),
    [
        ({}, False),
        ({"was_online": True}, True),
        ({"online": True}, True),
        ({"busy": True}, True),
        ({"job_id": 7}, True),
    ],
    ids=["only registered", "was online", "is online", "is busy", "had a job"],
)
def test_a_registration_as_new_as_the_pod_shows_whether_the_runner_worked(seen, worked):
    assert has_worked(lost(**(UNUSED | seen)), PENDING) is worked


@pytest.mark.parametrize(("earlier", "worked"), [(0.0, True), (MICROSECOND, False)])
def test_an_older_registration_was_online_in_another_pod(earlier, worked):
    evidence = lost(first_seen=MADE - BEFORE_ITS_POD_SECONDS - earlier)
    assert has_worked(evidence, PENDING) is worked


@pytest.mark.parametrize("when", ["job_started_at", "last_delivery_at"])
@pytest.mark.parametrize(("at", "worked"), [(MADE, False), (MADE + MICROSECOND, True)])
def test_of_an_older_registration_only_events_after_the_pods_creation_count(when, at, worked):
    assert has_worked(lost(first_seen=LONG_AGO, job_id=7, **{when: at}), PENDING) is worked
