"""Parsing of each line of a watch."""

from __future__ import annotations

import pytest

from ghapp.cluster.request import PODS, ClusterRequest
from ghapp.cluster.watch_events import WatchChange
from ghapp.cluster.wire import pods
from ghapp.cluster.wire.answers import change_of
from ghapp.decoding import LeftOutRows
from ghapp.errors import ClusterForbiddenError, ClusterUnavailableError, ResourceVersionExpiredError
from tests.cluster.shapes import encoded, pod, status

WATCH = ClusterRequest("watch", PODS, "runners")
BOOKMARK = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {"resourceVersion": "700", "creationTimestamp": None},
    "spec": {"containers": None},
    "status": {},
}


def read(kind, value) -> WatchChange:
    return change_of(WATCH, encoded({"type": kind, "object": value}), pods.pod, LeftOutRows())


@pytest.mark.parametrize("kind", ["added", "modified", "deleted"])
def test_a_change_contains_a_pod_and_its_version(kind):
    assert read(kind.upper(), pod()) == WatchChange(kind, pods.pod(encoded(pod())), "412")


def test_a_bookmark_contains_only_a_version():
    assert read("BOOKMARK", BOOKMARK) == WatchChange("bookmark", None, "700")


@pytest.mark.parametrize(
    ("value", "error"),
    [
        pytest.param(
            status(410, "Expired", "too old resource version: 1 (9)"), ResourceVersionExpiredError, id="expired"
        ),
        pytest.param(status(410, "Gone"), ResourceVersionExpiredError, id="gone"),
        pytest.param(status(0, "Expired"), ResourceVersionExpiredError, id="expired-without-a-code"),
        pytest.param(status(403, "Forbidden"), ClusterForbiddenError, id="forbidden"),
        pytest.param(status(500, "InternalError", "etcdserver: no leader"), ClusterUnavailableError, id="internal"),
        pytest.param({}, ClusterUnavailableError, id="of-nothing"),
    ],
)
def test_an_error_event_is_mapped_by_its_status(value, error):
    with pytest.raises(error):
        read("ERROR", value)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"{}", id="empty"),
        pytest.param(b"null", id="null"),
        pytest.param(b"<html>", id="a-page"),
        pytest.param(encoded({"type": "ADDED"}), id="without-an-object"),
        pytest.param(encoded({"type": "ADDED", "object": None}), id="null-object"),
        pytest.param(encoded({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": ""}}}), id="no-version"),
        pytest.param(encoded({"type": "ADDED", "object": pod()})[:-1], id="cut"),
    ],
)
def test_an_invalid_event_is_no_answer(line):
    with pytest.raises(ClusterUnavailableError):
        change_of(WATCH, line, pods.pod, LeftOutRows())


@pytest.mark.parametrize(
    ("kind", "value", "field"),
    [
        pytest.param("RENAMED", pod(), "type", id="an-unknown-type"),
        pytest.param("ADDED", BOOKMARK, "object", id="no-pod"),
        pytest.param("DELETED", pod(metadata={"uid": None}), "object", id="a-pod-without-a-uid"),
    ],
)
def test_an_event_that_cannot_be_read_is_left_out_and_the_watch_goes_on_after_it(kind, value, field):
    left_out = LeftOutRows()
    change = change_of(WATCH, encoded({"type": kind, "object": value}), pods.pod, left_out)
    assert change == WatchChange("bookmark", None, value["metadata"]["resourceVersion"])
    ((count, odd),) = left_out.take().values()
    assert (count, odd.kind, odd.field) == (1, "pod", field)
