from __future__ import annotations

import base64
import json

import httpx
import pytest

from tests.sandbox.apiservers import ACCOUNTS, ALL_PODS, PODS, RUNNERS, Api, names, status


@pytest.fixture
def api():
    with Api.served() as api:
        yield api


def test_a_pod_is_read_as_it_was_made(api):
    made = api.control.pod("runners", "a", labels={"pool": "linux"}, node="node-7", age_seconds=90)
    read = api.get(f"{PODS}/a").json()
    assert read == made
    assert list(read)[:2] == ["kind", "apiVersion"]
    assert read["metadata"]["creationTimestamp"] == "2027-01-15T07:58:30Z"
    assert read["status"]["containerStatuses"][0]["state"] == {"running": {"startedAt": "2027-01-15T07:58:30Z"}}
    assert (read["spec"]["nodeName"], read["status"]["phase"]) == ("node-7", "Running")


def test_what_is_not_there_is_not_found_by_its_resource(api):
    assert status(api.get(f"{PODS}/b")) == (404, "NotFound", 'pods "b" not found')
    answer = api.get(f"{RUNNERS}/b")
    assert status(answer) == (404, "NotFound", 'ephemeralrunners.actions.github.com "b" not found')
    assert answer.json()["details"] == {"name": "b", "group": "actions.github.com", "kind": "ephemeralrunners"}


def test_a_list_is_in_order_of_namespace_and_name_and_has_the_version_of_everything(api):
    for namespace, name in (("runners", "b"), ("other", "z"), ("runners", "a")):
        api.control.pod(namespace, name)
    document = api.get(ALL_PODS).json()
    assert (document["kind"], document["apiVersion"]) == ("PodList", "v1")
    assert document["metadata"] == {"resourceVersion": str(api.control.version())}
    assert [item["metadata"]["name"] for item in document["items"]] == ["z", "a", "b"]
    assert names(api.get(PODS)) == ["a", "b"]


def test_items_of_a_built_in_kind_do_not_say_what_they_are_and_those_of_a_custom_one_do(api):
    api.control.pod("runners", "a")
    api.control.ephemeral_runner("runners", "a")
    assert "kind" not in api.get(PODS).json()["items"][0]
    assert api.get(RUNNERS).json()["items"][0]["kind"] == "EphemeralRunner"


def test_a_list_of_a_namespace_that_is_not_there_is_empty(api):
    assert names(api.get("/api/v1/namespaces/nowhere/pods")) == []


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("pool=linux", ["a"]),
        ("pool==linux", ["a"]),
        ("pool = linux , busy", ["a"]),
        ("pool!=linux", ["b", "c", "d"]),
        ("pool in (linux,gpu)", ["a", "b"]),
        ("pool in (linux, )", ["a", "d"]),
        ("pool notin (linux,gpu)", ["c", "d"]),
        ("pool", ["a", "b", "d"]),
        ("!pool", ["c"]),
        ("! pool", ["c"]),
        ("pool=", ["d"]),
        ("ghapp.dev/owner=x", ["c"]),
        ("pool,!busy", ["b", "d"]),
        ("pool in (linux),pool notin (gpu),busy", ["a"]),
        ("", ["a", "b", "c", "d"]),
    ],
)
def test_labels_select(api, selector, found):
    api.control.pod("runners", "a", labels={"pool": "linux", "busy": ""})
    api.control.pod("runners", "b", labels={"pool": "gpu"})
    api.control.pod("runners", "c", labels={"ghapp.dev/owner": "x"})
    api.control.pod("runners", "d", labels={"pool": ""})
    assert names(api.get(PODS, params={"labelSelector": selector})) == found


@pytest.mark.parametrize(
    "selector",
    [
        "a=b=c",
        "a in b",
        "a in (b",
        "a in (b c)",
        "=b",
        "a,,b",
        "a=b,",
        "!",
        "a between (b)",
        "-a",
        "a=-",
        "a=b c",
        "a b",
    ],
)
def test_a_label_selector_that_is_none_is_a_bad_request(api, selector):
    code, reason, message = status(api.get(PODS, params={"labelSelector": selector}))
    assert (code, reason) == (400, "BadRequest")
    assert message.startswith("unable to parse requirement: ")


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("metadata.name=a", ["a"]),
        ("metadata.name==a", ["a"]),
        ("metadata.name!=a", ["b", "c"]),
        ("metadata.namespace=runners", ["a", "b", "c"]),
        ("metadata.namespace=other", []),
        ("status.phase=Running", ["a"]),
        ("status.phase!=Running", ["b", "c"]),
        ("spec.nodeName=node-2", ["b"]),
        ("spec.nodeName=", ["c"]),
        ("status.phase=Pending,spec.nodeName!=", ["b"]),
    ],
)
def test_fields_select(api, selector, found):
    api.control.pod("runners", "a")
    api.control.pod("runners", "b", node="node-2", running=False)
    api.control.pod("runners", "c", node="")
    assert names(api.get(PODS, params={"fieldSelector": selector})) == found


@pytest.mark.parametrize(
    ("path", "selector", "expected"),
    [
        (PODS, "spec.foo=1", "field label not supported: spec.foo"),
        (RUNNERS, "status.phase=Running", "field label not supported: status.phase"),
        (PODS, "metadata.name", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
    ],
)
def test_fields_without_a_selector_are_a_bad_request(api, path, selector, expected):
    assert status(api.get(path, params={"fieldSelector": selector})) == (400, "BadRequest", expected)


def pages(api, path, **query):
    """The names page by page, and the remaining count of each page."""
    found, expected = [], {"limit": 2, **query}
    while True:
        document = api.get(path, params=expected).raise_for_status().json()
        meta = document["metadata"]
        found.append(([item["metadata"]["name"] for item in document["items"]], meta.get("remainingItemCount")))
        if not meta.get("continue"):
            return found
        expected = {"limit": 2, "continue": meta["continue"]} | {k: v for k, v in query.items() if k == "labelSelector"}


def test_a_list_comes_in_pages(api):
    for name in "abcde":
        api.control.pod("runners", name)
    assert pages(api, PODS) == [(["a", "b"], 3), (["c", "d"], 1), (["e"], None)]
    assert pages(api, PODS, limit=5) == [(list("abcde"), None)]
    assert pages(api, PODS, limit=6) == [(list("abcde"), None)]


def test_pages_over_all_namespaces_do_not_lose_one_between_them(api):
    for namespace, name in (("a", "x"), ("a", "y"), ("a-b", "a"), ("b", "w"), ("b", "x")):
        api.control.pod(namespace, name)
    # Byte by byte a-b/ comes before a/.
    assert [page for page, _ in pages(api, ALL_PODS)] == [["a", "x"], ["y", "w"], ["x"]]


def test_with_a_selector_no_remainder_is_reported_and_the_last_page_may_be_empty(api):
    for name in "abc":
        api.control.pod("runners", name, labels={"pool": "linux"} if name != "c" else {})
    assert pages(api, PODS, labelSelector="pool=linux") == [(["a", "b"], None), ([], None)]


def test_all_pages_are_of_the_first_one_s_version(api):
    for name in "abcd":
        api.control.pod("runners", name)
    first = api.get(PODS, params={"limit": 2}).json()["metadata"]
    api.control.vanish("runners", "c")
    api.control.pod("runners", "cc")
    api.control.set_labels("pods", "runners", "d", changed="yes")
    second = api.get(PODS, params={"limit": 2, "continue": first["continue"]}).json()
    assert [item["metadata"]["name"] for item in second["items"]] == ["c", "d"]
    assert "labels" not in second["items"][1]["metadata"]
    assert second["metadata"] == {"resourceVersion": first["resourceVersion"]}


def test_a_token_that_is_too_old_is_410_and_offers_another_that_goes_on_with_what_is_there(api):
    for name in "abcd":
        api.control.pod("runners", name)
    token = api.get(PODS, params={"limit": 2}).json()["metadata"]["continue"]
    api.control.vanish("runners", "c")
    api.control.forget_versions()
    answer = api.get(PODS, params={"limit": 2, "continue": token})
    code, reason, message = status(answer)
    assert (code, reason) == (410, "Expired")
    assert message.startswith("The provided continue parameter is too old to display a consistent list result.")
    other = answer.json()["metadata"]["continue"]
    assert names(api.get(PODS, params={"limit": 2, "continue": other})) == ["d"]


@pytest.mark.parametrize("token", ["!", "e30", base64.urlsafe_b64encode(b'{"v":"v9","rv":1,"start":"a"}').decode()])
def test_a_token_that_is_none_is_a_bad_request(api, token):
    code, reason, message = status(api.get(PODS, params={"continue": token}))
    assert (code, reason) == (400, "BadRequest")
    assert message.startswith("invalid continue token: ")


def test_a_token_is_of_the_real_form(api):
    for name in "ab":
        api.control.pod("runners", name)
    meta = api.get(PODS, params={"limit": 1}).json()["metadata"]
    token = meta["continue"]
    expected = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    assert expected == {"v": "meta.k8s.io/v1", "rv": int(meta["resourceVersion"]), "start": "runners/a\0"}


def test_a_list_from_the_cache_ignores_the_limit(api):
    for name in "abc":
        api.control.pod("runners", name)
    assert names(api.get(PODS, params={"limit": 1, "resourceVersion": "0"})) == ["a", "b", "c"]


def test_a_list_can_be_of_an_older_version(api):
    api.control.pod("runners", "a")
    version = api.version()
    api.control.pod("runners", "b")
    exact = api.get(PODS, params={"resourceVersion": version, "resourceVersionMatch": "Exact"})
    assert (names(exact), exact.json()["metadata"]["resourceVersion"]) == (["a"], version)
    # With a limit that is what is meant, without one it is only a bound.
    assert names(api.get(PODS, params={"resourceVersion": version, "limit": 9})) == ["a"]
    assert names(api.get(PODS, params={"resourceVersion": version})) == ["a", "b"]


def test_a_list_of_a_version_that_is_forgotten_is_410(api):
    version = api.version()
    now = api.control.forget_versions()
    expected = "The resourceVersion for the provided list is too old."
    query = {"resourceVersion": version, "resourceVersionMatch": "Exact"}
    assert status(api.get(PODS, params=query)) == (410, "Expired", expected)
    assert api.get(PODS, params=query | {"resourceVersion": now}).status_code == 200


def test_a_list_of_a_version_that_has_not_come_is_a_timeout(api):
    now = api.control.version()
    answer = api.get(PODS, params={"resourceVersion": now + 1})
    expected = f"Too large resource version: {now + 1}, current: {now}"
    assert status(answer) == (504, "Timeout", expected)
    assert answer.json()["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
    assert answer.headers["retry-after"] == "1"


@pytest.mark.parametrize(
    ("query", "code", "reason"),
    [
        ({"resourceVersionMatch": "Exact"}, 422, "Invalid"),
        ({"resourceVersionMatch": "Exact", "resourceVersion": "0"}, 422, "Invalid"),
        ({"resourceVersionMatch": "About", "resourceVersion": "5"}, 422, "Invalid"),
        ({"sendInitialEvents": "true"}, 422, "Invalid"),
        ({"resourceVersion": "now"}, 500, ""),
        ({"limit": "many"}, 400, "BadRequest"),
        ({"continue": "e30", "resourceVersion": "5"}, 400, "BadRequest"),
    ],
    ids=str,
)
def test_options_that_contradict_each_other_are_refused(api, query, code, reason):
    assert status(api.get(PODS, params=query))[:2] == (code, reason)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", PODS),
        ("PUT", f"{PODS}/a"),
        ("PATCH", PODS),
        ("POST", f"{PODS}/a"),
        ("POST", ALL_PODS),
        ("DELETE", ALL_PODS),
        ("DELETE", f"{PODS}/a/status"),
        ("POST", "/version"),
        ("GET", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
    ],
)
def test_a_verb_that_the_place_does_not_know_is_405(api, method, path):
    api.control.pod("runners", "a")
    assert status(api.request(method, path, json={}))[:2] == (405, "MethodNotAllowed")


@pytest.mark.parametrize(
    "path",
    [
        "/apis/actions.github.com/v1beta1/ephemeralrunners",
        "/apis/example.com/v1/things",
        "/api/v1/namespaces/runners/configmaps",
        f"{PODS}/a/nothing",
        f"{ACCOUNTS}/a/log",
        f"{ACCOUNTS}/a/status",
        "/apis/example.com/v1",
        "/nothing",
    ],
)
def test_a_path_that_leads_nowhere_is_404(api, path):
    expected = "the server could not find the requested resource"
    assert status(api.get(path)) == (404, "NotFound", expected)
    api.control.answers_plain_not_found()
    older = api.get(path)
    assert (older.status_code, older.text) == (404, "404 page not found\n")
    assert older.headers["content-type"].startswith("text/plain")


def test_a_crd_that_is_not_installed_is_404_and_takes_its_objects_along(api):
    api.control.ephemeral_runner("runners", "a")
    api.control.uninstall("ephemeralrunners")
    assert status(api.get(RUNNERS))[:2] == (404, "NotFound")
    assert status(api.get(f"{RUNNERS}/a"))[2] == "the server could not find the requested resource"
    listed = api.get("/apis/actions.github.com/v1alpha1").json()["resources"]
    kinds = {resource["name"].partition("/")[0] for resource in listed}
    assert kinds == {"autoscalingrunnersets", "ephemeralrunnersets"}
    api.control.install()
    assert names(api.get(RUNNERS)) == []


def test_a_built_in_kind_cannot_be_uninstalled(api):
    with pytest.raises(ValueError, match="built in"):
        api.control.uninstall("pods")


def test_health_and_version_need_no_token(api):
    for path in ("/healthz", "/livez", "/readyz"):
        assert httpx.get(api.server.url + path).text == "ok"
    assert httpx.get(api.server.url + "/version").json()["major"] == "1"


def test_discovery_lists_what_there_is(api):
    assert api.get("/api").json()["versions"] == ["v1"]
    groups = [group["name"] for group in api.get("/apis").json()["groups"]]
    assert groups == ["actions.github.com", "authorization.k8s.io"]
    core = {resource["name"]: resource for resource in api.get("/api/v1").json()["resources"]}
    assert core.keys() == {"namespaces", "namespaces/status", "pods", "pods/log", "pods/status", "serviceaccounts"}
    assert core["pods"]["namespaced"]


def test_a_namespace_is_read_at_its_own_path(api):
    read = api.get("/api/v1/namespaces/runners").json()
    assert (read["kind"], read["metadata"]["name"], read["status"]["phase"]) == ("Namespace", "runners", "Active")
    assert {"default", "kube-system", "runners"} <= set(names(api.get("/api/v1/namespaces")))
    assert names(api.get(ACCOUNTS)) == ["default"]


def test_five_hundred_pods_are_listed_whole(api):
    for number in range(500):
        api.control.pod("runners", f"p-{number:03}")
    answer = api.get(PODS)
    assert len(names(answer)) == 500
    assert int(answer.headers["content-length"]) == len(answer.content)
