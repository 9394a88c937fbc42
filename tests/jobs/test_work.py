"""Work is asked for by name: each name is somebody's."""

from __future__ import annotations

import importlib
import inspect

import pytest

from ghapp.work import QUEUE_OF, QUEUES, Work


@pytest.mark.parametrize("work", list(Work))
def test_each_name_is_a_job_that_takes_primitives_and_has_a_queue(work):
    module, _, name = work.value.rpartition(".")
    job = getattr(importlib.import_module(module), name)
    assert inspect.iscoroutinefunction(job)
    assert {each.annotation for each in inspect.signature(job).parameters.values()} <= {"int", "str"}
    assert QUEUE_OF[work] in QUEUES


def test_the_worker_has_imported_each_before_it_forks():
    source = inspect.getsource(importlib.import_module("jobs.worker"))
    for work in Work:
        assert f"import {work.value.rpartition('.')[0]}\n" in source.replace("  # noqa", "\n")
