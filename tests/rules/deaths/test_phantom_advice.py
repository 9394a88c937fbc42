"""One fault has one advice: that of the phantom which a pod left when it disappeared."""

from __future__ import annotations

import pytest

from ghapp.deaths.cause import Cause, advice_for
from ghapp.deaths.death import Death, with_phantom
from ghapp.pods.phantom_kinds import ADVICE, Phantom, PhantomKind, PhantomReason
from tests.rules.builders import NOW

NODE = advice_for(Cause.VANISHED, "PodGone")
LEFT = Phantom(
    PhantomKind.OBJECT_WITHOUT_POD, "r1", PhantomReason.POD_LOST, ADVICE[PhantomReason.POD_LOST], namespace="runners"
)


def death(**changes):
    known = Death("r1", "r1", "node-1", NOW, None, None, "PodGone", Cause.VANISHED, NODE, "runners", "uid-1")
    return known._replace(**changes)


@pytest.mark.parametrize(
    ("dead", "phantom", "is_advised"),
    [
        (death(), LEFT, True),
        (death(reason="Deleted"), LEFT, True),
        (death(reason="NodeLost"), LEFT, False),
        (death(reason="OOMKilled", cause=Cause.HOST_OOM), LEFT, False),
        (death(), LEFT._replace(subject="r2"), False),
        (death(), LEFT._replace(namespace="other"), False),
        (death(), LEFT._replace(reason=PhantomReason.POD_NEVER_MADE), False),
    ],
    ids=["gone", "deleted", "with its node", "another end", "another name", "another namespace", "another phantom"],
)
def test_only_the_death_of_the_pod_that_left_the_phantom_has_its_step(dead, phantom, is_advised):
    advised = with_phantom(dead, phantom)
    assert (advised != dead) is is_advised
    assert advised._replace(advice=dead.advice) == dead
    assert ("delete the EphemeralRunner so that ARC creates another" in advised.advice) is is_advised
    assert with_phantom(advised, phantom) == advised
