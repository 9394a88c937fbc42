"""What of RQ's worker ours overrides: it is pinned to its minor version, and this fails with a version that differs."""

from __future__ import annotations

from inspect import signature

import pytest
from rq import Worker

from ghapp.queue.worker import FastRecoveryWorker

OVERRIDDEN = {
    "connection_timeout": None,
    "get_heartbeat_ttl": ["self", "job"],
    "heartbeat": ["self", "timeout", "pipeline"],
    "reorder_queues": ["self", "reference_queue"],
    "execute_job": ["self", "job", "queue"],
    "perform_job": ["self", "job", "queue"],
    "handle_execution_ended": ["self", "job", "queue", "heartbeat_ttl"],
    "handle_job_success": ["self", "job", "queue", "started_job_registry"],
    "handle_job_failure": ["self", "job", "queue", "started_job_registry", "exc_string"],
    "clean_registries": ["self"],
    "request_stop": ["self", "signum", "frame"],
    "register_birth": ["self"],
    "subscribe": ["self"],
    "set_shutdown_requested_date": ["self"],
    "teardown": ["self"],
}
"""Names and parameters; None: a property."""


def test_what_is_overridden_is_known():
    own = {name for name in vars(FastRecoveryWorker) if not name.startswith("__") and hasattr(Worker, name)}
    assert own == {*OVERRIDDEN, "max_connection_wait_time"}


@pytest.mark.parametrize(("name", "parameters"), OVERRIDDEN.items())
def test_rq_calls_an_overridden_method_with_these_parameters(name, parameters):
    for each in (Worker, FastRecoveryWorker):
        overridden = getattr(each, name)
        if parameters is None:
            assert isinstance(overridden, property)
        else:
            assert [*signature(overridden).parameters] == parameters
