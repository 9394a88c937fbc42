"""The meaning of each refusal; above all, which one means that an object was deleted."""

from __future__ import annotations

import pytest

from ghapp.cluster.api_errors import RefusedError, error_of, proves_absence
from ghapp.cluster.request import EPHEMERAL_RUNNERS, PODS, SERVICE_ACCOUNTS, ClusterRequest
from ghapp.errors import (
    ClusterForbiddenError,
    ClusterUnavailableError,
    ConflictError,
    ResourceMissingError,
    ResourceVersionExpiredError,
)
from tests.cluster.shapes import encoded, status

GET = ClusterRequest("get", EPHEMERAL_RUNNERS, "runners", "x")
ABSENT = status(404, "NotFound", 'ephemeralrunners.actions.github.com "x" not found', name="x", kind="ephemeralrunners")


def test_a_404_of_the_object_itself_proves_its_absence():
    assert proves_absence(GET, 404, encoded(ABSENT)) is True


@pytest.mark.parametrize(
    ("code", "body"),
    [
        pytest.param(404, b"404 page not found\n", id="no-such-path"),
        pytest.param(404, encoded(status(404, "NotFound", "could not find the requested resource")), id="no-crd"),
        pytest.param(404, encoded(ABSENT | {"details": None}), id="no-details"),
        pytest.param(404, encoded(ABSENT | {"details": {"name": "y", "kind": "ephemeralrunners"}}), id="another-name"),
        pytest.param(404, encoded(ABSENT | {"details": {"name": "x", "kind": "namespaces"}}), id="namespace"),
        pytest.param(404, encoded(ABSENT | {"reason": "Unknown"}), id="another-reason"),
        pytest.param(404, encoded({"message": "Not Found"}), id="somebody-else-s-json"),
        pytest.param(404, b"<html>Not Found</html>", id="a-proxy"),
        pytest.param(404, b"\xff\xfe", id="no-text"),
        pytest.param(404, b"", id="nothing"),
        pytest.param(403, encoded(ABSENT), id="another-code"),
        pytest.param(503, encoded(ABSENT), id="out-of-order"),
    ],
)
def test_no_other_answer_proves_absence(code, body):
    assert proves_absence(GET, code, body) is False


def test_a_404_of_a_list_never_proves_absence():
    assert (
        proves_absence(ClusterRequest("list", EPHEMERAL_RUNNERS, "runners"), 404, encoded(ABSENT | {"details": {}}))
        is False
    )


@pytest.mark.parametrize(
    ("code", "error"),
    [
        pytest.param(200, ClusterUnavailableError, id="200-where-it-is-none"),
        pytest.param(302, ClusterUnavailableError, id="302"),
        pytest.param(400, RefusedError, id="400"),
        pytest.param(401, ClusterUnavailableError, id="401"),
        pytest.param(403, ClusterForbiddenError, id="403"),
        pytest.param(404, ResourceMissingError, id="404"),
        pytest.param(409, ConflictError, id="409"),
        pytest.param(410, ResourceVersionExpiredError, id="410"),
        pytest.param(422, RefusedError, id="422"),
        pytest.param(429, ClusterUnavailableError, id="429"),
        pytest.param(499, RefusedError, id="499"),
        pytest.param(500, ClusterUnavailableError, id="500"),
        pytest.param(504, ClusterUnavailableError, id="504"),
    ],
)
def test_each_code_is_one_error(code, error):
    assert type(error_of(GET, code, b"")) is error


def test_a_denial_names_the_role_and_the_missing_permission():
    who = "system:serviceaccount:ghapp:worker"
    message = (
        f'ephemeralrunners "x" is forbidden: User "{who}" cannot delete resource "ephemeralrunners" in API group …'
    )
    error = error_of(GET._replace(verb="delete"), 403, encoded(status(403, "Forbidden", message)))
    assert isinstance(error, ClusterForbiddenError)
    assert (error.verb, error.resource) == ("delete", "ephemeralrunners.actions.github.com")
    assert str(error) == (
        "RBAC lacks delete on ephemeralrunners.actions.github.com: a Role in namespace runners bound to "
        "system:serviceaccount:ghapp:worker must allow it"
    )


def test_a_denied_subresource_is_named():
    message = (
        'pods "x" is forbidden: User "watch" cannot get resource "pods/log" in API group "" in the namespace "runners"'
    )
    error = error_of(
        ClusterRequest("get", PODS, "runners", "x", "log"), 403, encoded(status(403, "Forbidden", message))
    )
    assert isinstance(error, ClusterForbiddenError)
    assert (error.verb, error.resource, error.by_rbac) == ("get", "pods/log", True)
    assert str(error) == "RBAC lacks get on pods/log: a Role in namespace runners bound to watch must allow it"


@pytest.mark.parametrize(
    "words",
    [
        'admission webhook "x" denied the request: no',
        'admission webhook "x" denied the request: User "mona" cannot delete resource "pods" of another team',
        "pods \"x\" is forbidden: ValidatingAdmissionPolicy 'keep' with binding 'keep' denied request: not today",
        'pods "x" is forbidden: exceeded quota: count, requested: pods=1, used: pods=5, limited: pods=5',
        "Forbidden (user=kube-apiserver-kubelet-client, verb=get, resource=nodes, subresource=proxy)",
    ],
    ids=["webhook", "webhook that speaks like RBAC", "policy", "quota", "kubelet"],
)
def test_a_403_that_is_not_from_rbac_is_shown_in_the_servers_words(words):
    error = error_of(GET, 403, encoded(status(403, "Forbidden", words)))
    assert isinstance(error, ClusterForbiddenError)
    assert error.by_rbac is False
    assert str(error) == f"get ephemeralrunners.actions.github.com runners/x: forbidden: {words}"


@pytest.mark.parametrize("body", [b"", b"<html>no</html>", encoded({"message": "no"})], ids=["empty", "html", "other"])
def test_a_403_without_the_words_of_the_api_server_is_not_attributed_to_rbac(body):
    error = error_of(GET, 403, body)
    assert isinstance(error, ClusterForbiddenError)
    assert error.by_rbac is False
    assert "RBAC" not in str(error)


def test_what_an_authorizer_adds_to_a_denial_is_quoted():
    denial = 'pods is forbidden: User "watch" cannot list resource "pods" in API group "" in the namespace "runners"'
    message = denial + ': RBAC: role.rbac.authorization.k8s.io "ghapp-watch" not found'
    error = error_of(ClusterRequest("list", PODS, "runners"), 403, encoded(status(403, "Forbidden", message)))
    assert str(error).endswith('must allow it (RBAC: role.rbac.authorization.k8s.io "ghapp-watch" not found)')


@pytest.mark.parametrize(
    ("call", "body", "text"),
    [
        pytest.param(GET, b"404 page not found", "does not know ephemeralrunners.actions.github.com", id="no-crd"),
        pytest.param(
            ClusterRequest("create", SERVICE_ACCOUNTS, "gone"),
            encoded(status(404, "NotFound", "", name="gone", kind="namespaces")),
            "there is no namespace gone",
            id="no-namespace",
        ),
        pytest.param(ClusterRequest("list", PODS, "runners"), b"", "check the cluster's address", id="no-api-server"),
    ],
)
def test_a_404_names_the_missing_resource(call, body, text):
    assert text in str(error_of(call, 404, body))


def test_a_refusal_is_one_short_line():
    error = error_of(GET, 422, encoded(status(422, "Invalid", "a\nb" * 1000)))
    assert "\n" not in str(error)
    assert len(str(error)) < 500
