"""Work is asked for by name: each name is somebody's."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys

import pytest

from ghapp.queue.jobs import QUEUE_OF, QUEUES, JobName


@pytest.mark.parametrize("work", list(JobName))
def test_each_name_is_a_job_that_takes_primitives_and_has_a_queue(work):
    module, _, name = work.value.rpartition(".")
    job = getattr(importlib.import_module(module), name)
    assert inspect.iscoroutinefunction(job)
    assert {each.annotation for each in inspect.signature(job).parameters.values()} <= {"int", "str"}
    assert QUEUE_OF[work] in QUEUES


def test_a_worker_that_forks_has_loaded_all_that_its_jobs_need():
    loaded = subprocess.run(
        [sys.executable, "-c", "import sys, jobs.worker; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert {work.value.rpartition(".")[0] for work in JobName} - set(loaded) == set()
    assert "githubkit" in loaded, "it takes half a second"
