from __future__ import annotations

import json

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.sandbox.apiservers import ALL_PODS, PODS, RUNNERS, Api, names, status


@pytest.fixture
def api():
    with Api.served() as api:
        yield api


def test_a_watch_shows_what_happened_after_its_version(api):
    api.control.pod("runners", "before")
    with api.watching(PODS, api.version()) as watch:
        assert watch.answer.headers["transfer-encoding"] == "chunked"
        assert watch.answer.headers["content-type"] == "application/json"
        api.control.pod("runners", "a")
        api.control.set_labels("pods", "runners", "a", seen="yes")
        api.control.vanish("runners", "a")
        assert watch.brief() == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


def test_what_happened_between_the_list_and_the_watch_is_not_missed(api):
    version = api.version()
    api.control.pod("runners", "a")
    api.control.vanish("runners", "a")
    with api.watching(PODS, version) as watch:
        assert watch.brief() == [("ADDED", "a"), ("DELETED", "a")]


def test_an_event_has_the_whole_object_with_its_kind(api):
    with api.watching(PODS, api.version()) as watch:
        made = api.control.pod("runners", "a")
        assert watch.next() == {"type": "ADDED", "object": made}


def test_a_deletion_shows_what_was_last_under_the_version_of_its_end(api):
    made = api.control.pod("runners", "a")
    with api.watching(PODS, api.version()) as watch:
        api.control.vanish("runners", "a")
        deleted = watch.next()["object"]
    assert int(deleted["metadata"].pop("resourceVersion")) == api.control.version()
    made["metadata"].pop("resourceVersion")
    assert deleted == made


@pytest.mark.parametrize("version", [None, "0"])
def test_from_no_version_what_is_there_comes_first(api, version):
    for name in "ba":
        api.control.pod("runners", name)
    with api.watching(PODS, version) as watch:
        api.control.pod("runners", "c")
        assert watch.brief() == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c")]


def test_a_watch_from_a_version_that_has_not_come_is_silent_until_then(api):
    with api.watching(PODS, api.control.version() + 2) as watch:
        for name in "abc":
            api.control.pod("runners", name)
        assert watch.brief() == [("ADDED", "c")]


def test_an_object_that_stops_matching_is_deleted_as_it_last_matched_and_one_that_starts_is_added(api):
    api.control.pod("runners", "a", labels={"pool": "linux"})
    api.control.pod("runners", "b", labels={"pool": "gpu"})
    with api.watching(PODS, api.version(), labelSelector="pool=linux") as watch:
        api.control.set_labels("pods", "runners", "a", pool="gpu")
        api.control.set_labels("pods", "runners", "b", pool="linux")
        api.control.set_labels("pods", "runners", "a", more="yes")
        api.control.vanish("runners", "a")
        left, came = watch.so_far()
    assert (left["type"], left["object"]["metadata"]["labels"]) == ("DELETED", {"pool": "linux"})
    assert (came["type"], came["object"]["metadata"]["labels"]) == ("ADDED", {"pool": "linux"})
    assert int(left["object"]["metadata"]["resourceVersion"]) + 1 == int(came["object"]["metadata"]["resourceVersion"])


def test_fields_select_in_a_watch_too(api):
    api.control.pod("runners", "a")
    with api.watching(PODS, api.version(), fieldSelector="status.phase=Running") as watch:
        api.control.pod("runners", "b", running=False)
        api.control.container_ends("runners", "a", exit_code=1)
        api.control.container_starts("runners", "b")
        assert watch.brief() == [("DELETED", "a"), ("ADDED", "b")]


def test_a_watch_of_a_namespace_gets_only_its_events_and_one_of_all_gets_all(api):
    version = api.version()
    api.control.pod("other", "x")
    api.control.pod("runners", "a")
    with api.watching(PODS, version) as one, api.watching(ALL_PODS, version) as every:
        assert one.brief() == [("ADDED", "a")]
        assert every.brief() == [("ADDED", "x"), ("ADDED", "a")]


def test_a_bookmark_has_a_version_and_no_name(api):
    with api.watching(PODS, api.version()) as pods, api.watching(RUNNERS, api.version(RUNNERS)) as runners:
        api.control.namespace("something-else")
        api.control.bookmark()
        meta = {"resourceVersion": str(api.control.version())}
        pod = {"kind": "Pod", "apiVersion": "v1", "metadata": meta, "spec": {"containers": None}, "status": {}}
        assert pods.next() == {"type": "BOOKMARK", "object": pod}
        runner = {"kind": "EphemeralRunner", "apiVersion": "actions.github.com/v1alpha1", "metadata": meta}
        assert runners.next() == {"type": "BOOKMARK", "object": runner}


def test_bookmarks_are_sent_only_on_request(api):
    with api.watching(PODS, api.version(), allowWatchBookmarks="false") as watch:
        api.control.bookmark()
        api.control.pod("runners", "a")
        assert watch.next()["type"] == "ADDED"


def test_a_watch_ends_after_its_time_with_a_bookmark(api):
    with api.watching(PODS, api.version(), timeoutSeconds=1) as watch:
        api.control.pod("runners", "a")
        events = [json.loads(line) for line in watch.answer.iter_lines()]
    assert [event["type"] for event in events] == ["ADDED", "BOOKMARK"]
    assert events[1]["object"]["metadata"] == {"resourceVersion": events[0]["object"]["metadata"]["resourceVersion"]}


def test_a_streaming_list_marks_the_end_of_the_present_objects(api):
    api.control.pod("runners", "a")
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    with api.watching(PODS, **query) as watch:
        assert watch.next()["type"] == "ADDED"
        meta = watch.next()["object"]["metadata"]
    assert meta["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert meta["resourceVersion"] == str(api.control.version())


@pytest.mark.parametrize(
    ("query", "code", "reason"),
    [
        ({"resourceVersionMatch": "NotOlderThan"}, 422, "Invalid"),
        ({"sendInitialEvents": "true"}, 422, "Invalid"),
        ({"resourceVersion": "latest"}, 500, ""),
        ({"timeoutSeconds": "soon"}, 400, "BadRequest"),
        ({"labelSelector": "=="}, 400, "BadRequest"),
    ],
    ids=str,
)
def test_an_invalid_watch_is_refused(api, query, code, reason):
    assert status(api.get(PODS, params={"watch": "true", **query}))[:2] == (code, reason)


def test_an_expired_version_is_an_error_event_of_410(api):
    version = api.version()
    now = api.control.forget_versions()
    answer = api.get(PODS, params={"watch": "true", "resourceVersion": version})
    assert answer.status_code == 200
    (line,) = answer.text.splitlines()
    event = json.loads(line)
    assert event["type"] == "ERROR"
    expected = (event["object"]["code"], event["object"]["reason"], event["object"]["message"])
    assert expected == (410, "Expired", f"too old resource version: {version} ({now})")


def test_an_expired_version_is_410_if_the_control_is_set(api):
    version = api.version()
    api.control.forget_versions(by_http=True)
    answer = api.get(PODS, params={"watch": "true", "resourceVersion": version})
    assert status(answer)[:2] == (410, "Expired")


def test_the_oldest_version_that_is_kept_is_good(api):
    api.control.forget_versions()
    with api.watching(PODS, api.version()) as watch:
        api.control.pod("runners", "a")
        assert watch.brief() == [("ADDED", "a")]


def test_watches_that_are_open_lose_nothing_when_versions_are_forgotten(api):
    with api.watching(PODS, api.version()) as watch:
        api.control.pod("runners", "a")
        api.control.forget_versions()
        api.control.pod("runners", "b")
        assert watch.brief() == [("ADDED", "a"), ("ADDED", "b")]


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ("orderly", None),
        ("broken", httpx.RemoteProtocolError),
        ("half", httpx.RemoteProtocolError),
        ("reset", httpx.ReadError),
    ],
)
def test_all_watches_can_be_cut_at_once(api, how, error):
    with api.watching(PODS, api.version()) as watch, api.watching(RUNNERS, api.version()) as other:
        assert api.control.cut_watches(how) == 2
        for cut in (watch, other):
            if error is None:
                assert list(cut.answer.iter_lines()) == []
            else:
                with pytest.raises(error):
                    cut.next()


def test_half_an_event_is_no_event(api):
    with api.watching(PODS, api.version()) as watch:
        api.control.cut_watches("half")
        chunks = watch.answer.iter_raw()
        raw = next(chunks)
        with pytest.raises(httpx.RemoteProtocolError):
            next(chunks)
    assert raw.startswith(b'{"type":"BOOKMARK"')
    with pytest.raises(json.JSONDecodeError):
        json.loads(raw)


def test_an_open_watch_can_be_sent_that_its_version_expired(api):
    with api.watching(PODS, api.version()) as watch:
        api.control.cut_watches("expired")
        events = [json.loads(line) for line in watch.answer.iter_lines()]
    assert [(event["type"], event["object"]["code"]) for event in events] == [("ERROR", 410)]


def test_a_watch_is_cut_after_so_many_events_and_the_next_goes_on_from_there(api):
    version = api.version()
    api.control.cut_watches_after(2)
    with api.watching(PODS, version) as watch:
        for name in "abc":
            api.control.pod("runners", name)
        seen = [watch.next(), watch.next()]
        with pytest.raises(httpx.RemoteProtocolError):
            watch.next()
    with api.watching(PODS, seen[-1]["object"]["metadata"]["resourceVersion"]) as watch:
        assert watch.brief() == [("ADDED", "c")], "by default it cuts once"


def test_watches_can_be_cut_after_each_event_without_end(api):
    version = api.version()
    for name in "abc":
        api.control.pod("runners", name)
    api.control.cut_watches_after(1, "orderly", times=None)
    seen = []
    for _ in "abc":
        with api.watching(PODS, version) as watch:
            (line,) = watch.answer.iter_lines()
        event = json.loads(line)
        version = event["object"]["metadata"]["resourceVersion"]
        seen.append(event["object"]["metadata"]["name"])
    assert seen == ["a", "b", "c"]


def test_no_watch_can_be_cut_after_nothing(api):
    with pytest.raises(ValueError, match="1 event or more"):
        api.control.cut_watches_after(0)


def test_a_watch_of_a_crd_that_is_uninstalled_reports_its_objects_and_ends(api):
    api.control.ephemeral_runner("runners", "a")
    with api.watching(RUNNERS, api.version(RUNNERS)) as watch:
        api.control.uninstall("ephemeralrunners")
        events = [json.loads(line) for line in watch.answer.iter_lines()]
    assert [event["type"] for event in events] == ["DELETED"]


def test_a_client_that_disconnects_is_noticed(api):
    with api.watching(PODS, api.version()):
        assert api.control.watches() == 1
    while api.control.watches():
        api.get("/healthz")


POOLS = st.sampled_from(["linux", "gpu", None])
STEPS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["put", "vanish"]), POOLS), max_size=12)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS, data=st.data())
def test_a_list_and_the_events_after_it_give_the_next_list(api, steps, data):
    """For any list and any selector, replayed events lead to the contents of a new list."""
    for name in api.control.names("pods", "runners"):
        api.control.vanish("runners", name)
    selector = data.draw(st.sampled_from(["", "pool=linux", "pool", "!pool", "pool notin (gpu)"]))
    listed_at = data.draw(st.integers(0, len(steps)))
    query = {"labelSelector": selector}
    version, known = api.version(), {}
    for number, (name, action, pool) in enumerate([*steps, ("a", "list", None)]):
        if number == listed_at:
            document = api.get(PODS, params=query).json()
            version = document["metadata"]["resourceVersion"]
            known = {item["metadata"]["name"]: item["metadata"] for item in document["items"]}
        there = name in api.control.names("pods", "runners")
        if action == "put" and there:
            api.control.set_labels("pods", "runners", name, pool=pool)
        elif action == "put":
            api.control.pod("runners", name, labels={"pool": pool} if pool else {})
        elif action == "vanish" and there:
            api.control.vanish("runners", name)
    with api.watching(PODS, version, **query) as watch:
        for event in watch.so_far():
            meta = event["object"]["metadata"]
            assert (event["type"] == "ADDED") == (meta["name"] not in known)
            assert int(meta["resourceVersion"]) > int(version)
            version = meta["resourceVersion"]
            if event["type"] == "DELETED":
                del known[meta["name"]]
            else:
                known[meta["name"]] = meta
    now = api.get(PODS, params=query)
    assert sorted(known) == names(now)
    assert [known[name] for name in sorted(known)] == [item["metadata"] for item in now.json()["items"]]
