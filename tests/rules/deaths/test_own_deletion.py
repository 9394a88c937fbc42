"""An end before the pod's deletion has another cause than the deletion."""

from __future__ import annotations

import pytest

from ghapp.deaths.death import ended_before_deletion
from ghapp.pods.pod import Ended
from tests.rules.builders import NOW
from tests.rules.pods.builders import container, pod


def ended(at):
    return container(running_since=None, ended=Ended(143, None, "Error", finished_at=at))


@pytest.mark.parametrize(
    ("runner", "deleting_since", "is_before"),
    [
        (ended(NOW), NOW + 1, True),
        (ended(NOW + 1), NOW + 1, False),
        (ended(NOW + 31), NOW + 1, False),
        (ended(NOW + 9), None, True),
        (ended(None), NOW + 1, False),
        (ended(0.0), NOW + 1, False),
        (container(), NOW + 1, False),
        (container(), None, False),
    ],
    ids=["before", "same second", "after", "not Terminating", "no time", "lost by the kubelet", "running", "vanished"],
)
def test_an_end_is_before_the_deletion_only_by_its_time(runner, deleting_since, is_before):
    assert ended_before_deletion(pod(deleting_since=deleting_since, runner=runner)) is is_before
