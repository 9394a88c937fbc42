from __future__ import annotations

import pytest

from tests.sandbox.apiservers import ACCOUNTS, NOON, PODS, RUNNERS, SETS, Api, names, status

FINALIZER = "ephemeralrunner.actions.github.com/finalizer"
REGISTRATION = "ephemeralrunner.actions.github.com/runner-registration-finalizer"


@pytest.fixture
def api():
    with Api.served() as api:
        yield api


def at(seconds: float) -> str:
    return f"2027-01-15T08:{int(seconds) // 60:02}:{int(seconds) % 60:02}Z"


class TestPreconditions:
    @pytest.mark.parametrize(
        ("kind", "path", "called"),
        [
            ("pods", PODS, "Pod"),
            ("ephemeralrunners", RUNNERS, "EphemeralRunner.actions.github.com"),
        ],
    )
    def test_another_uid_is_a_conflict(self, api, kind, path, called):
        api.control.pod("runners", "a")
        api.control.ephemeral_runner("runners", "a")
        made = api.control.object(kind, "runners", "a")
        answer = api.remove(f"{path}/a", preconditions={"uid": "another"})
        text = (
            f'RestOperation cannot be fulfilled on {called} "a": the UID in the precondition (another) does not match the'
            f" UID in record ({made['metadata']['uid']}). The object might have been deleted and then recreated"
        )
        assert status(answer) == (409, "Conflict", text)
        assert api.control.object(kind, "runners", "a") == made

    def test_another_version_is_a_conflict(self, api):
        made = api.control.ephemeral_runner("runners", "a")
        old = made["metadata"]["resourceVersion"]
        changed = api.control.set_status("ephemeralrunners", "runners", "a", jobId="1")
        answer = api.remove(f"{RUNNERS}/a", preconditions={"uid": made["metadata"]["uid"], "resourceVersion": old})
        text = (
            'RestOperation cannot be fulfilled on EphemeralRunner.actions.github.com "a": the ResourceVersion in the'
            f" precondition ({old}) does not match the ResourceVersion in record"
            f" ({changed['metadata']['resourceVersion']}). The object might have been modified"
        )
        assert status(answer) == (409, "Conflict", text)
        assert api.control.object("ephemeralrunners", "runners", "a") == changed

    def test_the_right_ones_let_it_go(self, api):
        meta = api.control.ephemeral_runner("runners", "a", finalizers=())["metadata"]
        wanted = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
        answer = api.remove(f"{RUNNERS}/a", preconditions=wanted)
        assert (answer.status_code, answer.json()["status"]) == (200, "Success")
        assert status(api.remove(f"{RUNNERS}/a", preconditions=wanted))[:2] == (404, "NotFound")


class TestAnswers:
    def test_a_deleted_custom_resource_or_lease_is_answered_with_a_status(self, api):
        made = api.control.ephemeral_runner("runners", "a", finalizers=())
        details = {"name": "a", "group": "actions.github.com", "kind": "ephemeralrunners"}
        assert api.delete(f"{RUNNERS}/a").json() == {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": details | {"uid": made["metadata"]["uid"]},
        }

    def test_a_deleted_pod_or_service_account_is_answered_with_the_object(self, api):
        api.control.pod("runners", "a", node="", service_account="mine")
        assert api.delete(f"{PODS}/a").json()["kind"] == "Pod"
        assert api.delete(f"{ACCOUNTS}/mine").json()["kind"] == "ServiceAccount"
        assert api.control.names("serviceaccounts", "runners") == ["default"]

    @pytest.mark.parametrize(
        ("body", "code", "reason"),
        [
            ({"kind": "Pod"}, 400, "BadRequest"),
            ({"gracePeriodSeconds": "5"}, 400, "BadRequest"),
            ({"propagationPolicy": "Sideways"}, 422, "Invalid"),
        ],
        ids=str,
    )
    def test_options_that_are_none_are_refused(self, api, body, code, reason):
        api.control.pod("runners", "a")
        assert status(api.remove(f"{PODS}/a", **body))[:2] == (code, reason)
        assert api.control.names("pods") == ["a"]

    def test_a_dry_run_deletes_nothing(self, api):
        made = api.control.pod("runners", "a")
        assert api.remove(f"{PODS}/a", dryRun=["All"]).status_code == 200
        assert api.delete(f"{PODS}/a", params={"dryRun": "All"}).status_code == 200
        assert api.control.object("pods", "runners", "a") == made

    def test_a_collection_is_deleted_by_selector(self, api):
        for name, pool in (("a", "linux"), ("b", "gpu"), ("c", "linux")):
            api.control.pod("runners", name, labels={"pool": pool}, node="")
        answer = api.delete(PODS, params={"labelSelector": "pool=linux"})
        assert (names(answer), api.control.names("pods")) == (["a", "c"], ["b"])


class TestFinalizers:
    def test_an_object_stays_until_the_last_has_gone(self, api):
        made = api.control.ephemeral_runner("runners", "a")
        going = api.delete(f"{RUNNERS}/a").json()
        meta = going["metadata"]
        assert (going["kind"], meta["deletionTimestamp"], meta["deletionGracePeriodSeconds"]) == (
            "EphemeralRunner",
            at(0),
            0,
        )
        assert meta["generation"] == made["metadata"]["generation"] + 1
        with api.watching(RUNNERS, meta["resourceVersion"]) as watch:
            first = api.merge(f"{RUNNERS}/a", {"metadata": {"finalizers": [FINALIZER]}})
            assert first.json()["metadata"]["finalizers"] == [FINALIZER]
            last = api.json_patch(f"{RUNNERS}/a", {"op": "remove", "path": "/metadata/finalizers/0"})
            assert last.status_code == 200
            assert "finalizers" not in last.json()["metadata"]
            modified, deleted = watch.so_far()
        assert (modified["type"], deleted["type"]) == ("MODIFIED", "DELETED")
        assert deleted["object"]["metadata"]["finalizers"] == [FINALIZER], "the last write is not stored"
        assert status(api.get(f"{RUNNERS}/a"))[:2] == (404, "NotFound")

    def test_a_second_delete_changes_nothing(self, api):
        api.control.ephemeral_runner("runners", "a")
        first = api.delete(f"{RUNNERS}/a").json()
        api.clock.now += 60
        assert api.delete(f"{RUNNERS}/a").json() == first

    def test_none_can_be_added_to_what_is_going(self, api):
        api.control.ephemeral_runner("runners", "a")
        api.delete(f"{RUNNERS}/a")
        answer = api.merge(f"{RUNNERS}/a", {"metadata": {"finalizers": [FINALIZER, REGISTRATION, "x/y"]}})
        code, reason, message = status(answer)
        assert (code, reason) == (422, "Invalid")
        assert 'found new finalizers []string{"x/y"}' in message

    def test_what_is_not_going_stays_without_them(self, api):
        api.control.ephemeral_runner("runners", "a")
        assert api.merge(f"{RUNNERS}/a", {"metadata": {"finalizers": None}}).status_code == 200
        assert api.control.names("ephemeralrunners") == ["a"]

    def test_a_lever_lets_them_go(self, api):
        api.control.ephemeral_runner("runners", "a")
        api.control.delete("ephemeralrunners", "runners", "a")
        api.control.release("ephemeralrunners", "runners", "a", REGISTRATION)
        left = api.control.object("ephemeralrunners", "runners", "a")
        assert left["metadata"]["finalizers"] == [FINALIZER]
        api.control.release("ephemeralrunners", "runners", "a")
        assert api.control.names("ephemeralrunners") == []


class TestGrace:
    def test_a_running_pod_is_marked_for_when_its_grace_ends_and_stays(self, api):
        made = api.control.pod("runners", "a")
        meta = api.delete(f"{PODS}/a").json()["metadata"]
        assert (meta["deletionTimestamp"], meta["deletionGracePeriodSeconds"]) == (at(30), 30)
        assert meta["generation"] == made["metadata"]["generation"] + 1
        assert api.control.names("pods") == ["a"]

    @pytest.mark.parametrize(("asked", "got"), [(5, 5), (1, 1), (-9, 1), (3600, 3600)])
    def test_a_grace_that_is_asked_for_is_given(self, api, asked, got):
        api.control.pod("runners", "a")
        meta = api.remove(f"{PODS}/a", gracePeriodSeconds=asked).json()["metadata"]
        assert meta["deletionGracePeriodSeconds"] == got

    def test_the_query_may_ask_for_it_too(self, api):
        api.control.pod("runners", "a")
        answer = api.delete(f"{PODS}/a", params={"gracePeriodSeconds": 7})
        assert answer.json()["metadata"]["deletionGracePeriodSeconds"] == 7

    def test_grace_can_be_shortened_and_not_lengthened(self, api):
        api.control.pod("runners", "a")
        first = api.delete(f"{PODS}/a").json()
        api.clock.now += 2
        assert api.remove(f"{PODS}/a", gracePeriodSeconds=30).json() == first
        assert api.delete(f"{PODS}/a").json() == first
        meta = api.remove(f"{PODS}/a", gracePeriodSeconds=10).json()["metadata"]
        assert (meta["deletionTimestamp"], meta["deletionGracePeriodSeconds"]) == (at(10), 10)
        api.remove(f"{PODS}/a", gracePeriodSeconds=0)
        assert api.control.names("pods") == []

    @pytest.mark.parametrize("why", ["asked for none", "no node", "succeeded", "failed"])
    def test_a_pod_that_nothing_runs_goes_at_once_and_a_watch_sees_it_marked_first(self, api, why):
        api.control.pod("runners", "a", node="" if why == "no node" else "node-1")
        if why in ("succeeded", "failed"):
            api.control.container_ends("runners", "a", exit_code=int(why == "failed"))
        with api.watching(PODS, api.version()) as watch:
            api.remove(f"{PODS}/a", **({"gracePeriodSeconds": 0} if why == "asked for none" else {}))
            marked, deleted = watch.so_far()
        assert (marked["type"], deleted["type"]) == ("MODIFIED", "DELETED")
        assert marked["object"]["metadata"]["deletionGracePeriodSeconds"] == 0
        assert api.control.names("pods") == []

    def test_a_pod_with_a_finalizer_waits_for_it_after_its_grace(self, api):
        api.control.pod("runners", "a", finalizers=("x.dev/y",))
        api.delete(f"{PODS}/a")
        api.control.finish_deletion("runners", "a")
        assert api.get(f"{PODS}/a").json()["metadata"]["deletionGracePeriodSeconds"] == 0
        api.merge(f"{PODS}/a", {"metadata": {"finalizers": None}})
        assert api.control.names("pods") == []

    def test_the_kubelet_reports_the_end_before_the_pod_is_deleted(self, api):
        api.control.pod("runners", "a")
        api.delete(f"{PODS}/a")
        with api.watching(PODS, api.version()) as watch:
            api.control.finish_deletion("runners", "a", exit_code=143)
            ended, marked, deleted = watch.so_far()
        assert (ended["type"], marked["type"], deleted["type"]) == ("MODIFIED", "MODIFIED", "DELETED")
        terminated = ended["object"]["status"]["containerStatuses"][0]["state"]["terminated"]
        assert (terminated["exitCode"], ended["object"]["status"]["phase"]) == (143, "Failed")
        assert marked["object"]["metadata"]["deletionGracePeriodSeconds"] == 0

    def test_the_kubelet_may_keep_silent(self, api):
        api.control.pod("runners", "a")
        api.delete(f"{PODS}/a")
        with api.watching(PODS, api.version()) as watch:
            api.control.finish_deletion("runners", "a", exit_code=None)
            *_, deleted = watch.so_far()
        assert deleted["object"]["status"]["phase"] == "Running"

    @pytest.mark.parametrize(("takes", "gone_after"), [(0, 0), (12, 12), (300, 30)])
    def test_a_kubelet_that_works_by_itself_takes_its_time_and_no_more_than_the_grace(self, api, takes, gone_after):
        api.control.kubelet_deletes_after(takes)
        api.control.pod("runners", "a")
        api.delete(f"{PODS}/a")
        if gone_after:
            api.clock.now = NOON + gone_after - 1
            assert names(api.get(PODS)) == ["a"]
        api.clock.now = NOON + gone_after
        assert names(api.get(PODS)) == []


class TestOwners:
    def test_dependents_go_with_their_owner_down_to_the_last(self, api):
        owners = api.control.ephemeral_runner_set("runners", "set")
        runner = api.control.ephemeral_runner("runners", "a", owner=owners, finalizers=())
        api.control.pod("runners", "a", owner=runner)
        api.control.pod("runners", "free")
        with api.watching(PODS, api.version()) as watch:
            api.delete(f"{SETS}/set")
            assert watch.brief() == [("MODIFIED", "a")], "pods get their grace"
        assert api.control.names("ephemeralrunners") == []
        assert api.control.object("pods", "runners", "free")["metadata"].get("deletionTimestamp") is None
        api.control.finish_deletion("runners", "a")
        assert api.control.names("pods") == ["free"]

    def test_one_that_has_another_owner_left_stays_and_loses_the_reference(self, api):
        one, other = (api.control.ephemeral_runner("runners", name, finalizers=()) for name in "ab")
        api.control.pod("runners", "p", owner=one)
        second = dict(api.control.pod("runners", "q", owner=other)["metadata"]["ownerReferences"][0], controller=False)
        references = [*api.control.object("pods", "runners", "p")["metadata"]["ownerReferences"], second]
        api.merge(f"{PODS}/p", {"metadata": {"ownerReferences": references}})
        api.delete(f"{RUNNERS}/a")
        left = api.control.object("pods", "runners", "p")["metadata"]
        assert left["ownerReferences"] == [second]
        assert "deletionTimestamp" not in left

    def test_an_owner_with_finalizers_keeps_its_objects_until_it_is_deleted(self, api):
        runner = api.control.ephemeral_runner("runners", "a")
        api.control.pod("runners", "a", owner=runner, node="")
        api.delete(f"{RUNNERS}/a")
        assert api.control.names("pods") == ["a"]
        api.control.release("ephemeralrunners", "runners", "a")
        assert api.control.names("pods") == []

    def test_what_refers_to_an_owner_that_never_was_goes_too(self, api):
        runner = api.control.ephemeral_runner("runners", "a", finalizers=())
        api.delete(f"{RUNNERS}/a")
        api.control.pod("runners", "late", owner=runner, node="")
        assert api.control.names("pods") == []

    def test_an_orphan_stays_without_its_owner(self, api):
        runner = api.control.ephemeral_runner("runners", "a", finalizers=())
        api.control.pod("runners", "a", owner=runner)
        api.remove(f"{RUNNERS}/a", propagationPolicy="Orphan")
        assert api.control.names("ephemeralrunners") == []
        meta = api.control.object("pods", "runners", "a")["metadata"]
        assert "ownerReferences" not in meta
        assert "deletionTimestamp" not in meta

    def test_in_the_foreground_the_owner_waits_for_its_dependents(self, api):
        runner = api.control.ephemeral_runner("runners", "a", finalizers=())
        api.control.pod("runners", "a", owner=runner)
        meta = api.remove(f"{RUNNERS}/a", propagationPolicy="Foreground").json()["metadata"]
        assert meta["finalizers"] == ["foregroundDeletion"]
        assert api.control.object("pods", "runners", "a")["metadata"]["deletionGracePeriodSeconds"] == 30
        api.control.finish_deletion("runners", "a")
        assert (api.control.names("pods"), api.control.names("ephemeralrunners")) == ([], [])

    def test_the_collector_can_be_held(self, api):
        runner = api.control.ephemeral_runner("runners", "a", finalizers=())
        api.control.pod("runners", "a", owner=runner, node="")
        api.control.collects_garbage(at_once=False)
        api.delete(f"{RUNNERS}/a")
        assert api.control.names("pods") == ["a"]
        api.control.collect_garbage()
        assert api.control.names("pods") == []
