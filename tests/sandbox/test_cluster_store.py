from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghapp.sandbox.cluster import store as stores
from ghapp.sandbox.cluster.kinds import PODS, SERVICE_ACCOUNTS
from ghapp.sandbox.cluster.store import Key, Store, VersionForgotten

STEPS = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(["put", "put", "remove", "forget"]), st.integers(0, 2)),
    max_size=25,
)


def put(store, name, value=0, kind=PODS):
    return store.put(kind, {"metadata": {"name": name, "namespace": "n", "uid": name}, "value": value})


def seen(objects):
    return {key.name: stored.value["value"] for key, stored in objects.items()}


@given(STEPS)
def test_each_version_that_is_kept_can_be_seen_again_and_changes_lead_from_it_to_now(steps):
    store, kept = Store(), {}
    for name, action, value in steps:
        if action == "put":
            put(store, name, value)
        elif action == "forget":
            store.forget()
            kept.clear()
        elif store.get(PODS, Key("n", name)):
            store.remove(PODS, Key("n", name))
        kept[store.version] = seen(store.all(PODS))
    for version, then in kept.items():
        assert seen(store.snapshot(PODS, version)) == then
        for change in store.since(PODS, version):
            assert change.version > version
            name = change.last.key.name
            assert (change.before is not None) == (name in then)
            if change.after is None:
                del then[name]
            else:
                then[name] = change.after.value["value"]
        assert then == seen(store.all(PODS))


def test_versions_are_counted_over_all_kinds():
    store = Store()
    first = put(store, "a")
    assert put(store, "a", kind=SERVICE_ACCOUNTS).version == first.version + 1
    assert store.remove(PODS, Key("n", "a")).version == first.version + 2


def test_what_is_stored_again_as_it_is_is_no_change():
    store = Store()
    first = put(store, "a", 1)
    assert put(store, "a", 1) is first
    assert put(store, "a", 2).version == first.version + 1


def test_only_so_many_changes_are_kept(monkeypatch):
    monkeypatch.setattr(stores, "CHANGES_KEPT", 3)
    store = Store()
    versions = [put(store, "a", value).version for value in range(5)]
    assert [change.version for change in store.since(PODS, versions[1])] == versions[2:]
    assert seen(store.snapshot(PODS, versions[1])) == {"a": 1}
    for ask in (store.since, store.snapshot):
        with pytest.raises(VersionForgotten) as forgotten:
            ask(PODS, versions[0])
        assert (forgotten.value.asked, forgotten.value.oldest) == (versions[0], versions[1])


def test_a_listener_that_left_gets_no_changes():
    store, changes = Store(), []
    leave = store.listen(PODS, changes.append)
    put(store, "a", kind=SERVICE_ACCOUNTS)
    put(store, "a")
    leave()
    leave()
    put(store, "b")
    assert [change.last.key.name for change in changes] == ["a"]
