"""The pool under which a job's times are counted."""

from __future__ import annotations

import pytest

from ghapp.settings import PoolSettings
from ghapp.workflow_jobs.job import Job, configured_pool
from tests.rules.builders import online

RULES = (PoolSettings("acme", "linux", ("linux-4vcpu",)), PoolSettings("acme", "big", ("big",)))


@pytest.mark.parametrize(
    ("labels", "runner", "pool"),
    [
        (("self-hosted",), online(), "linux"),
        (("self-hosted",), online(labels=("self-hosted", "arm"), custom_labels=("arm",)), "other"),
        (("self-hosted", "big"), None, "big"),
        (("self-hosted", "big"), online(labels=()), "big"),
        (("self-hosted", "anything"), None, "other"),
    ],
    ids=["pool of the runner", "unconfigured pool", "pool of the labels", "runner without labels", "any label"],
)
def test_a_job_counts_for_the_configured_pool_of_its_runner_or_of_its_labels(labels, runner, pool):
    assert configured_pool(Job(1, "running", labels, "acme/api", 0.0), runner, RULES) == pool
