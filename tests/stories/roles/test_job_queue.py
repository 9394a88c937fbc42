"""Every job name has a function, and the worker has imported the function's modules before it forks."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

from ghapp.queue.jobs import QUEUE_OF, QUEUES, JobName
from jobs.worker import FUNCTIONS


@pytest.mark.parametrize("name", list(JobName))
def test_each_name_is_a_job_that_takes_primitives_and_has_a_queue(name):
    assert inspect.iscoroutinefunction(FUNCTIONS[name])
    assert {each.annotation for each in inspect.signature(FUNCTIONS[name]).parameters.values()} <= {"int", "str"}
    assert QUEUE_OF[name] in QUEUES


def test_a_worker_has_imported_the_modules_of_its_jobs_before_it_forks():
    loaded = subprocess.run(
        [sys.executable, "-c", "import sys, jobs.worker; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert {function.__module__ for function in FUNCTIONS.values()} - set(loaded) == set()
