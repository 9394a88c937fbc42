"""Parsing of ARC's objects, in the versions in use."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghapp.cluster.wire import ephemeralrunners
from ghapp.errors import ClusterUnavailableError
from ghapp.pods.pod import EphemeralRunner
from tests.cluster.shapes import CREATED_AT, encoded, ephemeral_runner, listed

NAME = "linux-4vcpu-x7k2p-runner-abcde"


def read(**parts) -> EphemeralRunner:
    return ephemeralrunners.ephemeral_runner(encoded(ephemeral_runner(**parts)))


def test_a_busy_one_is_read_whole():
    assert read() == EphemeralRunner(
        namespace="runners",
        name=NAME,
        uid="9f8e",
        version="409",
        created_at=CREATED_AT,
        phase="Running",
        runner_id=4242,
        runner_name=NAME,
        job_id="8c5e0b0e-1",
        workflow_run_id=9_123_456_789,
        failures=1,
        finalizers=(
            "ephemeralrunner.actions.github.com/finalizer",
            "ephemeralrunner.actions.github.com/runner-registration-finalizer",
        ),
        scale_set="linux-4vcpu",
        org="acme",
        repository="acme/shop",
    )


@pytest.mark.parametrize("status", [None, {}], ids=["missing", "empty"])
def test_a_new_one_has_no_status_and_no_job(status):
    body = ephemeral_runner(status=None)
    if status is not None:
        body["status"] = status
    found = ephemeralrunners.ephemeral_runner(encoded(body))
    assert (found.phase, found.runner_id, found.job_id, found.workflow_run_id, found.failures) == (
        "",
        None,
        "",
        None,
        0,
    )


def test_an_idle_one_has_no_job_where_go_writes_zero():
    found = read(status={"jobRequestId": 0, "jobId": "", "workflowRunId": 0, "runnerId": 0})
    assert (found.job_id, found.workflow_run_id, found.runner_id) == ("", None, None)


def test_the_number_of_its_request_makes_an_older_one_busy():
    assert read(status={"jobId": None}).job_id == "77"


@pytest.mark.parametrize(
    ("failures", "count"),
    [
        pytest.param({"a": "2026-11-20T12:00:00Z", "b": "2026-11-20T12:01:00Z"}, 2, id="times"),
        pytest.param({"a": True, "b": True, "c": False}, 2, id="booleans"),
        pytest.param({}, 0, id="none"),
        pytest.param(None, 0, id="missing"),
        pytest.param(["a"], 0, id="something-else"),
    ],
)
def test_failures_are_counted_in_either_form(failures, count):
    assert read(status={"failures": failures}).failures == count


@pytest.mark.parametrize(
    ("owner", "scale_set"),
    [
        pytest.param({"kind": "EphemeralRunnerSet", "name": "linux-4vcpu-x7k2p"}, "linux-4vcpu", id="generated"),
        pytest.param({"kind": "EphemeralRunnerSet", "name": "linux-large"}, "linux-large", id="not-generated"),
        pytest.param({"kind": "ReplicaSet", "name": "linux-4vcpu-x7k2p"}, "", id="another-kind"),
        pytest.param(None, "", id="unknown"),
    ],
)
def test_without_a_label_its_set_names_the_scale_set(owner, scale_set):
    found = read(metadata={"labels": None, "ownerReferences": [{**owner, "uid": "7"}] if owner else None})
    assert (found.scale_set, found.org) == (scale_set, "")


def test_the_label_goes_before_the_owner():
    assert read(metadata={"labels": {"actions.github.com/scale-set-name": "blue"}}).scale_set == "blue"


def test_an_object_that_is_being_deleted_has_the_time_of_the_request():
    found = read(metadata={"deletionTimestamp": "2026-11-20T12:02:00Z", "deletionGracePeriodSeconds": 0})
    assert found.deleting_since == CREATED_AT + 120


def test_a_list_is_read_with_its_token():
    body = listed([ephemeral_runner()], token="more", kind="EphemeralRunnerList")
    found = ephemeralrunners.ephemeral_runners(encoded(body))
    assert ([each.name for each in found.items], found.version, found.next) == ([NAME], "500", "more")


@pytest.mark.parametrize("key", ["uid", "resourceVersion", "creationTimestamp"])
def test_required_fields_must_be_present(key):
    with pytest.raises(ClusterUnavailableError):
        read(metadata={key: None})


@given(
    st.sampled_from(sorted(ephemeral_runner()["status"])),
    st.integers() | st.text() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False),
)
def test_a_field_of_another_type_hides_no_runner(field, value):
    body = ephemeral_runner()
    body["status"][field] = value
    assert ephemeralrunners.ephemeral_runner(encoded(body)).uid == "9f8e"
