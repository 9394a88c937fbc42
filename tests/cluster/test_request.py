"""Where a request goes, and which one never leaves."""

from __future__ import annotations

import pytest

from ghapp.cluster.request import ACCESS_REVIEWS, EPHEMERAL_RUNNERS, PODS, SERVICE_ACCOUNTS, VERSION, ClusterRequest


@pytest.mark.parametrize(
    ("call", "request_line", "text"),
    [
        pytest.param(
            ClusterRequest("list", PODS, "runners"),
            "GET /api/v1/namespaces/runners/pods",
            "list pods runners",
            id="core",
        ),
        pytest.param(
            ClusterRequest("get", PODS, "runners", "x", "log"),
            "GET /api/v1/namespaces/runners/pods/x/log",
            "get pods/log runners/x",
            id="subresource",
        ),
        pytest.param(
            ClusterRequest("delete", EPHEMERAL_RUNNERS, "runners", "x"),
            "DELETE /apis/actions.github.com/v1alpha1/namespaces/runners/ephemeralrunners/x",
            "delete ephemeralrunners.actions.github.com runners/x",
            id="custom",
        ),
        pytest.param(
            ClusterRequest("create", SERVICE_ACCOUNTS, "ghapp"),
            "POST /api/v1/namespaces/ghapp/serviceaccounts",
            "create serviceaccounts ghapp",
            id="create",
        ),
        pytest.param(
            ClusterRequest("create", ACCESS_REVIEWS),
            "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            "create selfsubjectaccessreviews.authorization.k8s.io",
            id="of-the-whole-cluster",
        ),
        pytest.param(ClusterRequest("get", VERSION), "GET /version", "get /version", id="no-resource"),
    ],
)
def test_a_call_has_one_address(call, request_line, text):
    assert (f"{call.method} {call.path}", str(call), call.can_exist) == (request_line, text, True)


@pytest.mark.parametrize("verb", ["get", "patch", "delete"])
@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "../x", "a..b", "MBP", "a b", "a?b", "a%2f", "-a", "a-", "ä", "a\n", "a" * 254]
)
def test_a_name_that_no_object_can_have_is_no_address(verb, name):
    assert ClusterRequest(verb, PODS, "runners", name).can_exist is False


@pytest.mark.parametrize("name", ["a", "0", "linux-4vcpu-x7k2p-runner-abcde", "a.b", "a" * 253])
def test_a_name_that_an_object_can_have_is(name):
    assert ClusterRequest("delete", PODS, "runners", name).can_exist is True
