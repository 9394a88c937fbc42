from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghapp.sandbox.cluster.patch import JSON, MERGE, applied
from tests.sandbox.apiservers import ACCOUNTS, JSON_PATCH, PODS, RUNNERS, SETS, Api, pod, status


@pytest.fixture
def api():
    with Api.served() as api:
        yield api


def runner(name="made", **meta):
    return {
        "apiVersion": "actions.github.com/v1alpha1",
        "kind": "EphemeralRunner",
        "metadata": {"name": name, **meta},
        "spec": {"runnerScaleSetId": 1},
    }


def account(name="made", **meta):
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, **meta}}


class TestPost:
    def test_a_new_object_gets_what_is_the_server_s_to_give(self, api):
        answer = api.post(PODS, json=pod() | {"status": {"phase": "Running"}})
        made = answer.json()
        assert answer.status_code == 201
        assert made["metadata"].keys() == {
            "name",
            "namespace",
            "uid",
            "creationTimestamp",
            "generation",
            "resourceVersion",
        }
        assert made["metadata"]["resourceVersion"] == str(api.control.version())
        assert made["metadata"]["generation"] == 1
        assert made["status"]["phase"] == "Pending", "a create sets no status"
        assert api.get(f"{PODS}/made").json() == made

    def test_a_name_is_made_up_from_its_beginning(self, api):
        body = pod() | {"metadata": {"generateName": "linux-"}}
        one, other = (api.post(PODS, json=body).json()["metadata"]["name"] for _ in range(2))
        assert one != other
        assert one.startswith("linux-")
        assert len(one) == len("linux-") + 5

    def test_a_name_that_is_taken_is_a_conflict(self, api):
        api.control.pod("runners", "made")
        answer = api.post(PODS, json=pod())
        assert status(answer) == (409, "AlreadyExists", 'pods "made" already exists')
        answer = api.post(RUNNERS, json=runner())
        assert answer.status_code == 201
        expected = 'ephemeralrunners.actions.github.com "made" already exists'
        assert status(api.post(RUNNERS, json=runner())) == (409, "AlreadyExists", expected)

    def test_a_namespace_that_is_not_there_is_not_found(self, api):
        answer = api.post("/api/v1/namespaces/nowhere/pods", json=pod())
        assert status(answer) == (404, "NotFound", 'namespaces "nowhere" not found')

    def test_a_custom_resource_gets_no_status_and_its_first_generation(self, api):
        made = api.post(RUNNERS, json=runner() | {"status": {"phase": "Running"}}).json()
        assert "status" not in made
        assert made["metadata"]["generation"] == 1

    def test_a_service_account_counts_no_generations(self, api):
        assert "generation" not in api.post(ACCOUNTS, json=account()).json()["metadata"]

    @pytest.mark.parametrize(
        ("body", "code", "reason", "expected"),
        [
            ([], 400, "BadRequest", "cannot be handled as a Pod"),
            (pod() | {"apiVersion": "v2"}, 400, "BadRequest", "does not match the expected API version (v1)"),
            (pod() | {"kind": "Node"}, 400, "BadRequest", "does not match the expected kind (Pod)"),
            (pod() | {"metadata": {"name": "a", "namespace": "x"}}, 400, "BadRequest", "does not match the namespace"),
            (pod() | {"metadata": {}}, 422, "Invalid", "name or generateName is required"),
            (pod("Up"), 422, "Invalid", "a lowercase RFC 1123 subdomain"),
            (pod("a" * 254), 422, "Invalid", "a lowercase RFC 1123 subdomain"),
            (pod(containers=[]), 422, "Invalid", "spec.containers: Required value"),
            (pod() | {"metadata": {"name": "a", "labels": {"a": "b c"}}}, 422, "Invalid", "a valid label must be"),
            (pod() | {"metadata": {"name": "a", "labels": {"a": "b" * 64}}}, 422, "Invalid", "no more than 63"),
            (pod() | {"metadata": {"name": "a", "labels": {"a": 1}}}, 400, "BadRequest", "cannot unmarshal number"),
            (pod() | {"metadata": {"name": "a", "ownerReferences": [{"kind": "X"}]}}, 422, "Invalid", "not be empty"),
            (pod() | {"metadata": {"name": "a", "resourceVersion": "5"}}, 500, "", "resourceVersion should not be set"),
        ],
    )
    def test_what_cannot_be_is_refused_with_its_reason(self, api, body, code, reason, expected):
        answer = api.post(PODS, json=body)
        assert status(answer)[:2] == (code, reason)
        assert expected in answer.json()["message"]
        assert api.control.names("pods") == []

    def test_the_longest_names_and_labels_are_good(self, api):
        body = pod("a" * 253) | {"metadata": {"name": "a" * 253, "labels": {"ghapp.dev/" + "b" * 63: "c" * 63}}}
        assert api.post(PODS, json=body).status_code == 201

    def test_a_refusal_names_the_field(self, api):
        answer = api.post(PODS, json=pod(containers=[]))
        assert answer.json()["details"] == {
            "name": "made",
            "kind": "Pod",
            "causes": [{"reason": "FieldValueRequired", "message": "Required value", "field": "spec.containers"}],
        }

    def test_what_is_no_json_is_refused(self, api):
        headers = {"content-type": "application/json"}
        assert status(api.post(PODS, content=b"{", headers=headers))[:2] == (400, "BadRequest")
        answer = api.post(PODS, content=b"a: b", headers={"content-type": "application/yaml"})
        assert status(answer)[:2] == (415, "UnsupportedMediaType")

    def test_a_dry_run_changes_nothing(self, api):
        version = api.control.version()
        assert api.post(PODS, json=pod(), params={"dryRun": "All"}).status_code == 201
        assert (api.control.names("pods"), api.control.version()) == ([], version)


class TestUpdate:
    def test_an_update_from_an_older_version_is_a_conflict(self, api):
        read = api.post(RUNNERS, json=runner()).json()
        for scale_set in (2, 3):
            read["spec"]["runnerScaleSetId"] = scale_set
            answer = api.merge(f"{RUNNERS}/made", read)
        expected = (
            'RestOperation cannot be fulfilled on ephemeralrunners.actions.github.com "made": the object has been modified;'
            " please apply your changes to the latest version and try again"
        )
        assert status(answer) == (409, "Conflict", expected)
        details = {"name": "made", "group": "actions.github.com", "kind": "ephemeralrunners"}
        assert answer.json()["details"] == details
        assert api.get(f"{RUNNERS}/made").json()["spec"]["runnerScaleSetId"] == 2

    def test_what_changes_nothing_makes_no_version_and_no_event(self, api):
        read = api.control.pod("runners", "a")
        version = api.control.version()
        with api.watching(PODS, version) as watch:
            answer = api.merge(f"{PODS}/a", read)
            assert answer.json() == read
            assert watch.so_far() == []
        assert api.control.version() == version

    def test_what_is_the_server_s_is_kept(self, api):
        read = api.control.ephemeral_runner("runners", "a")
        changed = read | {"metadata": read["metadata"] | {"creationTimestamp": None, "generation": 99, "labels": None}}
        meta = api.merge(f"{RUNNERS}/a", changed).json()["metadata"]
        assert "labels" not in meta
        for name in ("uid", "creationTimestamp", "generation"):
            assert meta[name] == read["metadata"][name]

    def test_the_spec_of_a_pod_cannot_be_changed_but_its_image_can(self, api):
        read = api.control.pod("runners", "a")
        read["spec"]["containers"][0]["image"] = "runner:2"
        updated = api.merge(f"{PODS}/a", read).json()
        assert updated["metadata"]["generation"] == read["metadata"]["generation"] + 1
        updated["spec"]["nodeName"] = "node-2"
        code, reason, message = status(api.merge(f"{PODS}/a", updated))
        assert (code, reason) == (422, "Invalid")
        assert "pod updates may not change fields other than" in message

    def test_a_deletion_is_not_taken_back(self, api):
        api.control.pod("runners", "a")
        going = api.delete(f"{PODS}/a").json()
        stamp = going["metadata"]["deletionTimestamp"]
        patch = {"deletionTimestamp": None, "deletionGracePeriodSeconds": None, "labels": {"changed": "yes"}}
        meta = api.merge(f"{PODS}/a", {"metadata": patch}).json()["metadata"]
        assert meta["labels"] == {"changed": "yes"}
        assert (meta["deletionTimestamp"], meta["deletionGracePeriodSeconds"]) == (stamp, 30)


class TestStatus:
    @pytest.mark.parametrize(("path", "kind"), [(PODS, "pods"), (RUNNERS, "ephemeralrunners")])
    def test_the_main_resource_leaves_it_alone(self, api, path, kind):
        api.control.pod("runners", "a")
        api.control.ephemeral_runner("runners", "a")
        before = api.control.version()
        answer = api.merge(f"{path}/a", {"status": {"phase": "Failed"}})
        assert (answer.status_code, answer.json()["status"]["phase"]) == (200, "Running")
        assert api.control.version() == before
        assert api.control.object(kind, "runners", "a")["status"]["phase"] == "Running"

    def test_the_subresource_changes_nothing_else(self, api):
        made = api.control.ephemeral_runner("runners", "a")
        patch = {"status": {"phase": "Failed"}, "spec": {"runnerScaleSetId": 9}, "metadata": {"labels": {"x": "y"}}}
        changed = api.merge(f"{RUNNERS}/a/status", patch).json()
        assert changed["status"]["phase"] == "Failed"
        assert changed["spec"] == made["spec"]
        assert changed["metadata"]["labels"] == made["metadata"]["labels"]
        assert changed["metadata"]["generation"] == made["metadata"]["generation"]

    def test_a_pod_s_takes_labels_along_but_no_owners(self, api):
        owner = api.control.ephemeral_runner("runners", "a")
        made = api.control.pod("runners", "a", owner=owner)
        patch = {"metadata": {"labels": {"x": "y"}, "ownerReferences": None}, "status": {"phase": "Failed"}}
        changed = api.merge(f"{PODS}/a/status", patch).json()
        assert changed["metadata"]["labels"] == {"x": "y"}
        assert changed["metadata"]["ownerReferences"] == made["metadata"]["ownerReferences"]

    def test_it_is_read_as_the_whole_object(self, api):
        made = api.control.pod("runners", "a")
        assert api.get(f"{PODS}/a/status").json() == made

    def test_a_generation_counts_changes_of_the_spec_alone(self, api):
        api.control.ephemeral_runner_set("runners", "set")
        path = f"{SETS}/set"
        assert api.merge(path, {"metadata": {"labels": {"x": "y"}}}).json()["metadata"]["generation"] == 1
        assert api.merge(path, {"spec": {"replicas": 7}}).json()["metadata"]["generation"] == 2


class TestPatch:
    def test_a_merge_puts_and_takes_away(self, api):
        api.control.pod("runners", "a", labels={"keep": "1", "drop": "1"})
        patch = {"metadata": {"labels": {"drop": None, "new": "1"}}}
        meta = api.merge(f"{PODS}/a", patch).json()["metadata"]
        assert meta["labels"] == {"keep": "1", "new": "1"}

    def test_a_merge_may_say_from_which_version_it_is(self, api):
        made = api.control.ephemeral_runner("runners", "a")
        version = made["metadata"]["resourceVersion"]
        patch = {"metadata": {"resourceVersion": version, "labels": {"x": "1"}}}
        assert api.merge(f"{RUNNERS}/a", patch).status_code == 200
        patch["metadata"]["labels"]["x"] = "2"
        assert status(api.merge(f"{RUNNERS}/a", patch))[:2] == (409, "Conflict")

    def test_a_json_patch_whose_test_holds_is_applied_and_one_whose_test_does_not_is_not(self, api):
        made = api.control.ephemeral_runner("runners", "a")
        test = {"op": "test", "path": "/metadata/uid", "value": made["metadata"]["uid"]}
        remove = {"op": "remove", "path": "/metadata/finalizers/1"}
        wrong = api.json_patch(f"{RUNNERS}/a", test | {"value": "another"}, remove)
        expected = "the server rejected our request due to an error in our request"
        assert status(wrong) == (422, "Invalid", expected)
        assert api.control.object("ephemeralrunners", "runners", "a") == made
        right = api.json_patch(f"{RUNNERS}/a", test, remove)
        assert right.json()["metadata"]["finalizers"] == made["metadata"]["finalizers"][:1]

    @pytest.mark.parametrize(
        "operation",
        [
            {"op": "remove", "path": "/metadata/nothing"},
            {"op": "replace", "path": "/metadata/nothing", "value": 1},
            {"op": "add", "path": "/nothing/below", "value": 1},
            {"op": "add", "path": "/metadata/finalizers/3", "value": "x/y"},
            {"op": "remove", "path": "/metadata/finalizers/2"},
            {"op": "remove", "path": "/metadata/finalizers/-1"},
            {"op": "add", "path": "metadata", "value": 1},
            {"op": "add", "path": "/metadata/labels"},
            {"op": "fly", "path": "/metadata"},
            {"op": "move", "path": "/metadata/labels"},
            {"op": "test", "path": "/metadata/generation", "value": True},
            {"op": "replace", "path": "", "value": 1},
        ],
        ids=lambda operation: f"{operation['op']} {operation['path']}",
    )
    def test_a_json_patch_that_cannot_be_applied_is_422(self, api, operation):
        made = api.control.ephemeral_runner("runners", "a")
        assert status(api.json_patch(f"{RUNNERS}/a", operation))[:2] == (422, "Invalid")
        assert api.control.object("ephemeralrunners", "runners", "a") == made

    @pytest.mark.parametrize(
        ("body", "headers"),
        [([], MERGE), ({}, JSON), ([1], JSON)],
    )
    def test_what_is_no_patch_is_a_bad_request(self, api, body, headers):
        api.control.pod("runners", "a")
        answer = api.patch(f"{PODS}/a", json=body, headers={"content-type": headers})
        assert status(answer)[:2] == (400, "BadRequest")

    @pytest.mark.parametrize(
        "media_type", ["application/json", "application/strategic-merge-patch+json", "application/apply-patch+yaml"]
    )
    def test_patches_of_other_types_are_415(self, api, media_type):
        api.control.ephemeral_runner("runners", "a")
        answer = api.patch(f"{RUNNERS}/a", json={}, headers={"content-type": media_type})
        assert status(answer)[:2] == (415, "UnsupportedMediaType")

    def test_a_patch_of_what_is_not_there_is_404(self, api):
        assert status(api.merge(f"{PODS}/a", {})) == (404, "NotFound", 'pods "a" not found')

    @pytest.mark.parametrize(
        ("meta", "code", "reason"),
        [
            ({"name": "b"}, 400, "BadRequest"),
            ({"namespace": "other"}, 400, "BadRequest"),
            ({"uid": "another"}, 422, "Invalid"),
            ({"labels": {"a": "b c"}}, 422, "Invalid"),
        ],
        ids=str,
    )
    def test_a_patch_may_not_change_what_an_object_is(self, api, meta, code, reason):
        made = api.control.ephemeral_runner("runners", "a")
        assert status(api.merge(f"{RUNNERS}/a", {"metadata": meta}))[:2] == (code, reason)
        assert api.control.object("ephemeralrunners", "runners", "a") == made

    def test_paths_are_escaped(self, api):
        api.control.pod("runners", "a", annotations={"ghapp.dev/one~two": "x"})
        operation = {"op": "replace", "path": "/metadata/annotations/ghapp.dev~1one~0two", "value": "y"}
        patched = api.json_patch(f"{PODS}/a", operation).json()
        assert patched["metadata"]["annotations"] == {"ghapp.dev/one~two": "y"}

    def test_a_patch_of_too_many_operations_is_413(self, api):
        api.control.pod("runners", "a")
        many = [{"op": "test", "path": "/kind", "value": "Pod"}] * 10_001
        assert status(api.patch(f"{PODS}/a", json=many, headers=JSON_PATCH))[0] == 413
        assert api.patch(f"{PODS}/a", json=many[1:], headers=JSON_PATCH).status_code == 200


SCALARS = st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab/~", max_size=3)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab/~", max_size=2), inner, max_size=3)
)
OBJECTS = st.dictionaries(st.text("ab/~", max_size=2), VALUES, max_size=4)


def without_nulls(value):
    """What a merge can say: it has no way to put null."""
    if isinstance(value, dict):
        return {key: without_nulls(part) for key, part in value.items() if part is not None}
    return value


@given(OBJECTS, OBJECTS)
def test_a_merge_twice_is_a_merge_once_and_changes_nothing_else(value, patch):
    before = repr(value)
    once = applied(value, patch, MERGE)
    assert applied(once, patch, MERGE) == once
    assert repr(value) == before


@given(OBJECTS, OBJECTS)
def test_a_merge_of_everything_over_nothing_is_that(value, patch):
    del value
    assert applied({}, patch, MERGE) == without_nulls(patch)


@given(OBJECTS, st.text("ab/~", max_size=3), VALUES)
def test_what_a_json_patch_adds_a_test_finds_and_a_remove_takes_away(value, key, added):
    value.pop(key, None)
    path = "/" + key.replace("~", "~0").replace("/", "~1")
    add, test = {"op": "add", "path": path, "value": added}, {"op": "test", "path": path, "value": added}
    assert applied(value, [add, test, {"op": "remove", "path": path}], JSON) == value
    assert applied(value, [add], JSON) == value | {key: added}
