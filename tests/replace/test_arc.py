"""ARC's object, and nothing but it."""

import pytest

from ghapp.cluster.watch_events import Listed
from ghapp.decoding import LeftOut
from ghapp.errors import ClusterUnavailableError, ConflictError
from ghapp.pods.blockers import Blocker
from ghapp.pods.deletion_guards import REGISTRATION_FINALIZER, DeletionVerdict
from ghapp.replace import arc
from ghapp.runners.deletion_progress import Deletion
from tests.replace.cluster import FakeCluster, execute
from tests.rules.builders import LONG_AGO, NOW, lost
from tests.rules.pods.builders import ARCS_OTHER_FINALIZER, NAMESPACE, pod, pod_of_object, preconditions, runner_object


async def look(cluster, evidence=None, **around):
    return await arc.find(cluster, NAMESPACE, evidence or lost(), preconditions(**around))


async def test_the_object_goes_and_its_pod_is_left_to_arc():
    cluster = FakeCluster(runner_object(), pod_of_object(), accounts=("linux-1",))
    decision = await look(cluster)
    assert decision.verdict is DeletionVerdict.DELETE
    await execute(arc, cluster, decision)
    assert cluster.done == ["delete object linux-1"]


async def test_findings_are_distinguished_by_what_was_found():
    decision = await look(
        FakeCluster(runner_object(job_id="8f"), pod_of_object()), lost(job_id=7, job_ended_at=LONG_AGO)
    )
    assert decision.uid == "object-1"
    assert decision.text == (
        "EphemeralRunner runners/linux-1 (object-1, version 71), Running, runner id 1, job 8f, "
        "pod Running on node-a, its container has run since 2026-09-20T14:13:25Z"
    )


async def test_an_object_of_another_name_is_found_by_its_runners_name():
    other = runner_object(name="arc-1")
    cluster = FakeCluster(other, pod_of_object(name="arc-1"), runner_object(name="arc-2", runner_name="linux-2"))
    decision = await look(cluster)
    assert (decision.verdict, decision.object) == (DeletionVerdict.DELETE, other)


class TestWhatTheWatchHasSeen:
    """Where it sees all, nothing is listed for one runner; what is deleted is read from the API server all the same."""

    @pytest.fixture
    def unlisted(self):
        """A cluster whose objects cannot be listed."""

        def cluster(*things):
            found = FakeCluster(*things)
            found.fails["ephemeral_runners"] = AssertionError("the whole namespace, for one runner")
            return found

        return cluster

    async def test_an_object_of_another_name_is_read_by_that(self, unlisted):
        other = runner_object(name="arc-1")
        cluster = unlisted(other, pod_of_object(name="arc-1"))
        decision = await look(cluster, object_names=("arc-1", "absent"))
        assert (decision.verdict, decision.object) == (DeletionVerdict.DELETE, other)
        await execute(arc, cluster, decision)
        assert cluster.done == ["delete object arc-1"]

    async def test_one_that_bears_another_runner_by_now_is_not_the_one(self, unlisted):
        cluster = unlisted(runner_object(name="arc-1", runner_name="linux-2"), pod_of_object(name="arc-1"))
        assert (await look(cluster, object_names=("arc-1",))).verdict is DeletionVerdict.NOTHING_LEFT

    async def test_two_are_both_left_alone(self, unlisted):
        twins = [runner_object(name=name) for name in ("arc-1", "arc-2")]
        decision = await look(unlisted(*twins), object_names=("arc-1", "arc-2"))
        assert (decision.verdict, decision.blocker) == (DeletionVerdict.REFUSE, Blocker.SEVERAL_OBJECTS)

    async def test_a_deleted_object_leaves_nothing_to_do(self, unlisted):
        assert (await look(unlisted(), object_names=())).verdict is DeletionVerdict.NOTHING_LEFT

    async def test_no_answer_is_not_absence(self, unlisted):
        cluster = unlisted(runner_object(name="arc-1"))
        cluster.fails["ephemeral_runner"] = ClusterUnavailableError("away")
        with pytest.raises(ClusterUnavailableError):
            await look(cluster, object_names=("arc-1",))


async def test_an_object_of_its_name_that_bears_another_runner_is_not_the_one():
    cluster = FakeCluster(runner_object(runner_name="linux-2"), pod_of_object())
    decision = await look(cluster)
    assert (decision.verdict, decision.object) == (DeletionVerdict.REFUSE, None)
    assert decision.blocker is Blocker.POD_OUTLIVES_OBJECT


async def test_an_object_that_is_not_registered_yet_is_known_by_its_own_name():
    decision = await look(FakeCluster(runner_object(runner_name=""), pod_of_object()))
    assert decision.verdict is DeletionVerdict.DELETE


async def test_two_objects_for_one_runner_are_both_left_alone():
    twins = [runner_object(name=name) for name in ("arc-1", "arc-2")]
    decision = await look(FakeCluster(*twins, pod_of_object(name="arc-1"), pod_of_object(name="arc-2")))
    assert (decision.verdict, decision.blocker) == (DeletionVerdict.REFUSE, Blocker.SEVERAL_OBJECTS)


async def test_a_deleted_object_leaves_nothing_to_do():
    cluster = FakeCluster()
    decision = await look(cluster)
    assert decision.verdict is DeletionVerdict.NOTHING_LEFT
    assert decision.text == "no EphemeralRunner of its name in runners"
    await execute(arc, cluster, decision)
    assert cluster.done == []


async def test_a_job_that_begins_between_the_look_and_the_deletion_is_a_conflict():
    cluster = FakeCluster(runner_object(), pod_of_object())
    decision = await look(cluster)
    cluster.objects["linux-1"] = runner_object(job_id="8f", version="72")
    with pytest.raises(ConflictError):
        await execute(arc, cluster, decision)
    assert cluster.done == []


async def test_the_object_is_read_last_and_what_it_says_then_counts():
    cluster = FakeCluster(runner_object(), pod_of_object())
    read = cluster.pod

    async def takes_a_job_meanwhile(*args):
        pod = await read(*args)
        cluster.objects["linux-1"] = runner_object(job_id="8f", version="72")
        return pod

    cluster.pod = takes_a_job_meanwhile
    decision = await look(cluster)
    assert (decision.verdict, decision.blocker, decision.object.version) == (
        DeletionVerdict.REFUSE,
        Blocker.JOB_UNKNOWN,
        "72",
    )


async def test_a_stuck_finalizer_goes_alone():
    stuck = runner_object(deleting_since=NOW - 120)
    evidence = lost(deletion=Deletion(uid="object-1", found_at=NOW - 120, accepted_at=NOW - 120))
    cluster = FakeCluster(stuck, pod_of_object())
    decision = await look(cluster, evidence)
    assert decision.verdict is DeletionVerdict.FREE
    await execute(arc, cluster, decision)
    assert cluster.done == [f"free linux-1 of {REGISTRATION_FINALIZER}"]
    assert cluster.objects["linux-1"].finalizers == (ARCS_OTHER_FINALIZER,)


async def test_an_object_that_changed_after_the_look_keeps_its_finalizer():
    stuck = runner_object(deleting_since=NOW - 120)
    evidence = lost(deletion=Deletion(uid="object-1", found_at=NOW - 120, accepted_at=NOW - 120))
    cluster = FakeCluster(stuck, pod_of_object())
    decision = await look(cluster, evidence)
    cluster.objects["linux-1"] = stuck._replace(job_id="8f", version="72")
    with pytest.raises(ConflictError):
        await execute(arc, cluster, decision)
    assert cluster.done == []


@pytest.mark.parametrize("verdict", [DeletionVerdict.REFUSE, DeletionVerdict.UNDER_WAY, DeletionVerdict.NOTHING_LEFT])
async def test_without_leave_nothing_is_done(verdict):
    cluster = FakeCluster(runner_object(deleting_since=NOW), pod_of_object())
    decision = (await look(cluster))._replace(verdict=verdict)
    await execute(arc, cluster, decision)
    assert cluster.done == []


@pytest.mark.parametrize("call", ["pod", "ephemeral_runner"])
async def test_no_answer_is_not_absence(call):
    cluster = FakeCluster(runner_object(), pod_of_object())
    cluster.fails[call] = ClusterUnavailableError("away")
    with pytest.raises(ClusterUnavailableError):
        await look(cluster)


async def test_a_list_without_an_answer_is_not_absence():
    cluster = FakeCluster()
    cluster.fails["ephemeral_runners"] = ClusterUnavailableError("away")
    with pytest.raises(ClusterUnavailableError):
        await look(cluster)


async def test_an_object_that_cannot_be_read_may_be_the_runner_s(monkeypatch):
    cluster = FakeCluster()

    async def ephemeral_runners(_namespace):
        return Listed([], "1", None, (LeftOut("ephemeral-runner", "items[0]", "odd", is_row=True),))

    monkeypatch.setattr(cluster, "ephemeral_runners", ephemeral_runners)
    with pytest.raises(ClusterUnavailableError, match="cannot be read"):
        await look(cluster)


async def test_a_pod_that_is_not_the_objects_own_is_distinguished():
    decision = await look(FakeCluster(runner_object(), pod()))
    assert (decision.verdict, decision.blocker) == (DeletionVerdict.REFUSE, Blocker.POD_OF_ANOTHER)
