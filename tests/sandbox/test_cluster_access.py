from __future__ import annotations

import httpx
import pytest
import yaml

from ghapp.sandbox.cluster.rbac import RbacRule
from tests.sandbox.apiservers import ACCOUNTS, ALL_PODS, PODS, RUNNERS, Api, pod, status
from tests.support.cluster_faults import ClusterCall

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
READ = ("get", "list", "watch")
MANIFESTS = """
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: watch, namespace: runners}
rules:
  - {apiGroups: [""], resources: [pods, pods/log], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: watch, namespace: runners}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: watch}
subjects: [{kind: ServiceAccount, name: watch, namespace: ghapp}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: accounts}
rules:
  - {apiGroups: [""], resources: [serviceaccounts], verbs: [get, delete], resourceNames: [one]}
  - {nonResourceURLs: [/metrics/*], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: accounts, namespace: ghapp}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: accounts}
subjects: [{kind: ServiceAccount, name: watch}, {kind: User, name: eve}]
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: watch, namespace: ghapp}
---
"""


@pytest.fixture
def api():
    with Api.served() as api:
        yield api


@pytest.fixture
def reader(api):
    """A client that may read pods in `runners`."""
    api.control.user("reader", [RbacRule(READ, ("",), ("pods",), ("runners",))])
    with api.as_("reader") as reader:
        yield reader


def may(api, **attributes):
    return api.post(REVIEWS, json={"spec": {"resourceAttributes": attributes}}).json()["status"]


class TestDenials:
    def test_what_a_rule_allows_is_allowed(self, api, reader):
        api.control.pod("runners", "a")
        assert reader.get(PODS).status_code == 200
        assert reader.get(f"{PODS}/a").status_code == 200
        with reader.watching(PODS, reader.version()) as watch:
            assert watch.answer.status_code == 200

    @pytest.mark.parametrize(
        ("method", "path", "text"),
        [
            (
                "GET",
                ALL_PODS,
                'pods is forbidden: User "reader" cannot list resource "pods" in API group "" at the cluster scope',
            ),
            (
                "GET",
                "/api/v1/namespaces/other/pods",
                'pods is forbidden: User "reader" cannot list resource "pods" in API group "" in the namespace "other"',
            ),
            (
                "GET",
                "/api/v1/namespaces/other/pods?watch=true",
                (
                    'pods is forbidden: User "reader" cannot watch resource "pods" in API group "" in the namespace'
                    ' "other"'
                ),
            ),
            (
                "DELETE",
                f"{PODS}/a",
                (
                    'pods "a" is forbidden: User "reader" cannot delete resource "pods" in API group "" in the namespace'
                    ' "runners"'
                ),
            ),
            (
                "DELETE",
                PODS,
                (
                    'pods is forbidden: User "reader" cannot deletecollection resource "pods" in API group "" in the'
                    ' namespace "runners"'
                ),
            ),
            (
                "GET",
                f"{PODS}/a/log",
                (
                    'pods "a" is forbidden: User "reader" cannot get resource "pods/log" in API group "" in the namespace'
                    ' "runners"'
                ),
            ),
            (
                "GET",
                RUNNERS,
                (
                    'ephemeralrunners.actions.github.com is forbidden: User "reader" cannot list resource'
                    ' "ephemeralrunners" in API group "actions.github.com" in the namespace "runners"'
                ),
            ),
            (
                "GET",
                "/api/v1/namespaces/runners",
                (
                    'namespaces "runners" is forbidden: User "reader" cannot get resource "namespaces" in API group "" in'
                    ' the namespace "runners"'
                ),
            ),
            ("GET", "/metrics", 'forbidden: User "reader" cannot get path "/metrics"'),
        ],
    )
    def test_everything_else_is_forbidden_in_the_real_words(self, api, reader, method, path, text):
        api.control.pod("runners", "a")
        assert status(reader.request(method, path)) == (403, "Forbidden", text)

    def test_a_denial_has_details(self, reader):
        assert reader.delete(f"{PODS}/a").json()["details"] == {"name": "a", "kind": "pods"}

    def test_what_is_not_installed_is_forbidden_first(self, api, reader):
        api.control.uninstall()
        assert status(reader.get(RUNNERS))[:2] == (403, "Forbidden")
        assert status(api.get(RUNNERS))[:2] == (404, "NotFound")

    def test_what_may_not_be_done_is_not_done(self, api, reader):
        made = api.control.pod("runners", "a")
        assert reader.post(PODS, json=pod()).status_code == 403
        assert reader.merge(f"{PODS}/a", {"metadata": {"labels": {"x": "y"}}}).status_code == 403
        assert api.control.objects("pods") == [made]

    def test_nothing_is_allowed_without_a_token(self, api):
        text = 'pods is forbidden: User "system:anonymous" cannot list resource "pods" in API group "" at the cluster scope'
        assert status(httpx.get(api.server.url + ALL_PODS)) == (403, "Forbidden", text)
        assert httpx.get(api.server.url + "/api/v1").status_code == 403
        assert httpx.post(api.server.url + REVIEWS, json={}).status_code == 403

    def test_the_address_of_a_kubeconfig_has_the_token_because_kubectl_sends_none_over_plain_http(self, api, tmp_path):
        api.control.ephemeral_runner("runners", "a")
        server = yaml.safe_load(api.server.kubeconfig(tmp_path / "config").read_text())["clusters"][0]["cluster"][
            "server"
        ]
        assert httpx.get(server + RUNNERS).status_code == 200
        assert httpx.delete(f"{server}{RUNNERS}/a").status_code == 200
        assert httpx.get(f"{api.server.url}/as/unknown{ALL_PODS}").status_code == 401
        assert httpx.get(f"{api.server.url}/as/").status_code == 401

    @pytest.mark.parametrize("text", ["Bearer unknown", "Bearer", "Basic YTpi", "nothing"])
    def test_an_unknown_token_is_unauthorized(self, api, text):
        answer = httpx.get(api.server.url + ALL_PODS, headers={"authorization": text})
        assert status(answer) == (401, "Unauthorized", "Unauthorized")

    def test_a_token_can_be_taken_away(self, api, reader):
        api.control.rotate_token("reader")
        assert reader.get(PODS).status_code == 401
        with api.as_("reader") as again:
            assert again.get(PODS).status_code == 200
            api.control.revoke("reader")
            assert again.get(PODS).status_code == 401
        with pytest.raises(LookupError, match="reader"):
            api.server.token("reader")


class TestRules:
    @pytest.mark.parametrize(
        ("rule", "method", "path", "allowed"),
        [
            (RbacRule(("*",), ("",), ("pods",)), "GET", ALL_PODS, True),
            (RbacRule(("*",), ("",), ("pods",)), "GET", PODS, True),
            (RbacRule(("list",), ("*",), ("*",)), "GET", RUNNERS, True),
            (RbacRule(("list",), ("",), ("*",)), "GET", RUNNERS, False),
            (RbacRule(("get",), ("",), ("pods",)), "GET", f"{PODS}/a/status", False),
            (RbacRule(("get",), ("",), ("pods/status",)), "GET", f"{PODS}/a/status", True),
            (RbacRule(("get",), ("",), ("pods/status",)), "GET", f"{PODS}/a", False),
            (RbacRule(("get",), ("",), ("*/status",)), "GET", f"{PODS}/a/status", True),
            (RbacRule(("get",), ("",), ("*",)), "GET", f"{PODS}/a/status", True),
            (RbacRule(("get",), ("",), ("pods",), names=("a",)), "GET", f"{PODS}/a", True),
            (RbacRule(("get",), ("",), ("pods",), names=("b",)), "GET", f"{PODS}/a", False),
            (RbacRule(("list",), ("",), ("pods",), names=("a",)), "GET", PODS, False),
            (
                RbacRule(("list",), ("",), ("pods",), names=("a",)),
                "GET",
                f"{PODS}?fieldSelector=metadata.name%3Da",
                True,
            ),
            (RbacRule(("list",), ("",), ("pods",), ()), "GET", PODS, False),
            (RbacRule(("get",), paths=("/nothing/*",)), "GET", "/nothing/here", True),
            (RbacRule(("get",), paths=("/nothing",)), "GET", "/nothing/here", False),
        ],
        ids=str,
    )
    def test_a_rule_allows_what_it_names(self, api, rule, method, path, allowed):
        api.control.pod("runners", "a")
        api.control.user("somebody", [rule])
        with api.as_("somebody") as somebody:
            assert (somebody.request(method, path).status_code != 403) is allowed

    def test_manifests_make_users(self, api):
        made = api.control.load_roles(yaml.safe_load_all(MANIFESTS))
        assert made == ["eve", "system:serviceaccount:ghapp:watch"]
        with api.as_("system:serviceaccount:ghapp:watch") as watch:
            assert watch.get(PODS).status_code == 200
            assert watch.get(ALL_PODS).status_code == 403
            assert watch.get("/api/v1/namespaces/ghapp/pods").status_code == 403
            accounts = ACCOUNTS.replace("runners", "ghapp")
            assert watch.get(f"{accounts}/one").status_code == 404
            assert watch.get(f"{accounts}/another").status_code == 403
            one = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "one"}}
            assert watch.post(accounts, json=one).status_code == 403
            assert watch.get("/metrics/slis").status_code == 403, "a RoleBinding gives no paths"

    def test_a_binding_of_a_role_that_is_not_there_is_refused(self, api):
        documents = [one for one in yaml.safe_load_all(MANIFESTS) if one and one["kind"] != "ClusterRole"]
        with pytest.raises(ValueError, match="RoleBinding \"accounts/ghapp\" binds the ClusterRole 'accounts'"):
            api.control.load_roles(documents)

    def test_a_cluster_role_binding_is_for_everywhere(self, api):
        role = {
            "kind": "ClusterRole",
            "metadata": {"name": "r"},
            "rules": [
                {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
                {"nonResourceURLs": ["/metrics/*"], "verbs": ["get"]},
            ],
        }
        binding = {
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "b"},
            "roleRef": {"kind": "ClusterRole", "name": "r"},
        }
        api.control.load_roles([role, binding | {"subjects": [{"kind": "User", "name": "eve"}]}])
        with api.as_("eve") as eve:
            assert eve.get(ALL_PODS).status_code == 200
            assert eve.get("/metrics/slis").status_code == 404
            reason = 'RBAC: allowed by ClusterRoleBinding "b"'
            assert may(eve, verb="list", resource="pods") == {"allowed": True, "reason": reason}


class TestReviews:
    def test_everybody_may_ask_what_they_may(self, reader):
        answer = reader.post(REVIEWS, json={"spec": {"resourceAttributes": {"verb": "list", "resource": "pods"}}})
        assert (answer.status_code, answer.json()["kind"]) == (201, "SelfSubjectAccessReview")
        assert answer.json()["status"] == {"allowed": False}

    @pytest.mark.parametrize(
        ("attributes", "allowed"),
        [
            ({"verb": "list", "resource": "pods", "namespace": "runners"}, True),
            ({"verb": "delete", "resource": "pods", "namespace": "runners"}, False),
            ({"verb": "get", "resource": "pods", "subresource": "log", "namespace": "runners"}, False),
            ({"verb": "list", "resource": "pods", "namespace": "other"}, False),
            ({"verb": "list", "resource": "pods", "namespace": ""}, False),
            ({"verb": "list", "resource": "pods", "namespace": "runners", "group": "apps"}, False),
            ({"verb": "*", "resource": "pods", "namespace": "runners"}, False),
        ],
        ids=str,
    )
    def test_the_answer_is_what_a_request_would_get(self, reader, attributes, allowed):
        assert may(reader, **attributes)["allowed"] is allowed

    def test_paths_can_be_asked_about(self, api):
        spec = {"spec": {"nonResourceAttributes": {"verb": "get", "path": "/metrics"}}}
        assert api.post(REVIEWS, json=spec).json()["status"] == {"allowed": True}

    @pytest.mark.parametrize(
        "body", [{}, {"spec": {}}, {"spec": {"resourceAttributes": {}, "nonResourceAttributes": {}}}]
    )
    def test_a_review_of_nothing_is_invalid(self, api, body):
        assert status(api.post(REVIEWS, json=body))[:2] == (422, "Invalid")


class TestCalls:
    def test_what_was_asked_is_recorded_as_rules_would_name_it(self, api, reader):
        api.control.pod("runners", "a")
        api.control.forget_calls()
        reader.get(PODS)
        reader.get(f"{PODS}/a/log")
        api.delete(f"{RUNNERS}/b")
        with reader.watching(PODS, 1000):
            pass
        assert api.control.calls("reader") == [
            ClusterCall("reader", "list", "", "pods", "", "runners", "", 200),
            ClusterCall("reader", "get", "", "pods", "log", "runners", "a", 403),
            ClusterCall("reader", "watch", "", "pods", "", "runners", "", 200),
        ]
        deletion = ClusterCall("admin", "delete", "actions.github.com", "ephemeralrunners", "", "runners", "b", 404)
        assert deletion in api.control.calls()
        api.control.forget_calls()
        assert api.control.calls() == []

    def test_paths_of_no_resource_are_not(self, api):
        for path in ("/version", "/readyz", "/apis"):
            api.get(path)
        assert api.control.calls() == []
