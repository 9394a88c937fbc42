"""Simulated days, by seed; what CI runs of `make simulate`, besides the days of `test_mutations`."""

import pytest

from tests.simulation.engine import simulate

SIMULATED = range(4)

MISJUDGED = {
    1156: "grants of a fuse that healed were held against the next one's first batch",
    1539: "a request that was granted before the fuse tripped was taken for one of its batch",
    1641: "the same as 1156, of the whole installation's fuse",
    7726: "a pool's own batches were held against the whole installation, whose fuse had no part in it",
    5517: "losses of a pool that had stopped by itself were held against the whole installation",
    2140: "a registration was held to be lost when another one had taken its name",
}
"""Days that the audit once called wrong, and the judgement was right."""


@pytest.mark.parametrize("seed", SIMULATED)
def test_no_simulated_day_breaks_an_invariant(seed):
    simulate(seed)


FOUND_A_DEFECT = {
    2387: "GitHub, asked at the confirmation, ended the known job of a runner that had been listed busy since: replaced at work",
    3806: "losses that their pool's fuse had healed were left out of the installation's mass loss",
    5558: "the late end of a crashed agent's job named the pod, in which another agent worked: reaped",
    6986: "the installation's fuse wrote off losses of a pool that it did not count, though a job waited for them",
    9406: "a registration that an earlier run of the container had left offline, and that was first listed after it, "
    "named the pod, in which another agent worked: reaped",
    8353: "a runner that only lists left out, as one that had left after its job, was reaped: no GET had been made",
    2813: "a runner first seen by a clock that was two minutes fast proved the next batch, too",
    100167: "GitHub's clock led by a minute: a runner shown busy before the end of its job seemed to run another one",
    102260: "the installation's fuse wrote off losses of a pool that was not configured, though a job waited for them",
}
"""Days on which the judgement was wrong once."""


@pytest.mark.parametrize("seed", FOUND_A_DEFECT)
def test_a_day_that_found_a_defect_holds(seed):
    simulate(seed)


@pytest.mark.parametrize("seed", MISJUDGED)
def test_a_day_on_which_the_judgement_was_right_is_not_called_wrong(seed):
    simulate(seed)
