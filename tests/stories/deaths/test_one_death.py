"""One death, seen by the watch and by the job that it left: one record, one event for its cause, one check run."""

from __future__ import annotations

import asyncio

import pytest
from rq.job import Job
from rq.serializers import JSONSerializer

from ghapp.deaths.cause import Cause
from ghapp.deaths.store import identity
from ghapp.errors import ClusterUnavailableError
from ghapp.pods.pod import Container, Ended, Pod
from ghapp.runners.observations import job_ended, job_started
from jobs.checks.publisher import CheckRunOutcome
from jobs.deaths.death_recorder import DeathRecorder
from jobs.deaths.job_deaths import examine_job_of
from jobs.deaths.post_mortem import look_into
from jobs.runners.sweep import sweep_installation
from tests.stories.conftest import POOL
from tests.stories.deaths.death_story import a_job_runs, check_runs

IN_CLUSTER = 'namespace = "runners"'
KILLED = Ended(137, 9, "OOMKilled")
EXITED = Ended(0, None, "Completed")


class NoLogs:
    """A cluster whose pods were deleted: their logs cannot be read."""

    async def log(self, pod, *, previous):
        raise ClusterUnavailableError("no such pod")


def recorder(app):
    return DeathRecorder(app.settings, NoLogs(), app.context, app.context.queue_redis, app.clock)


async def record_end(app, pod):
    """Whether the watch records this end as a new one."""
    return (await recorder(app).record_end(pod)).is_new


async def abandoned(app):
    """A job whose runner stops, and that GitHub ends ten minutes later; the job, and when its runner stopped."""
    await sweep_installation(app.context, app.installation)
    job = await a_job_runs(app)
    app.sandbox.control.die("acme", job_id=job.id)
    await app.pass_(30)
    stopped_at = app.clock()
    await app.pass_(600)
    app.sandbox.control.abandon("acme", job_id=job.id)
    await app.receive_all()
    return job, stopped_at


def pod_of(app, job, stopped_at, end):
    """The runner's pod: ended, or without an end the last that was seen of it."""
    began = stopped_at - 60
    container = (
        Container("runner", running_since=began)
        if end is None
        else Container("runner", ended=end._replace(finished_at=stopped_at))
    )
    return Pod(
        *("runners", job.runner_name, "uid-1", "7", began),
        node="node-1",
        runner=container,
        container="runner",
        image="runner:7",
        memory_limit="8Gi",
    )


async def deaths(app):
    return await app.context.deaths.recent(app.installation, 0.0, 10)


async def counted(app):
    return {
        name: value for name, value in (await app.context.counters.all()).items() if name.startswith("ghapp_deaths")
    }


def total(cause):
    return f'ghapp_deaths_total{{cause="{cause}",org="acme",pool="{POOL}"}}'


@pytest.mark.parametrize("first", ["cluster", "job"])
@pytest.mark.parametrize(
    ("end", "cause", "exit_code"),
    [(KILLED, Cause.HOST_OOM, 137), (None, None, None)],
    ids=["the end was observed", "the pod vanished"],
)
async def test_both_sides_in_any_order_and_twice_make_one_death(story, first, end, cause, exit_code):
    async with story(pool=IN_CLUSTER) as app:
        job, stopped_at = await abandoned(app)
        pod = pod_of(app, job, stopped_at, end)

        async def cluster():
            return await (recorder(app).record_vanished(pod) if end is None else record_end(app, pod))

        async def by_job():
            return await examine_job_of(app.context, app.installation, job.id)

        one, other = (cluster, by_job) if first == "cluster" else (by_job, cluster)
        assert await one()
        assert not await other()
        for again in (one, other, one, other):
            assert not await again()

        (found,) = await deaths(app)
        expected = cause or (Cause.VANISHED if first == "cluster" else Cause.LOST_COMMUNICATION)
        assert (found.cause, found.exit_code, found.pod_uid, found.node) == (expected, exit_code, "uid-1", "node-1")
        assert (found.image, found.memory_limit, found.pool) == ("runner:7", "8Gi", POOL)
        counted_as = Cause.LOST_COMMUNICATION if first == "job" else expected
        assert await counted(app) == {total(counted_as.value): 1}

        for look in (0, 1):
            await look_into(app.context, app.installation, identity(found), look)
        (event,) = await app.sent_events("runner.died")
        assert (event["runner_name"], event["cause"], event["job"]["id"]) == (job.runner_name, expected.value, job.id)
        (posted,) = check_runs(app).values()
        assert posted["name"] == "Runner post-mortem"
        assert (await deaths(app))[0].cause is expected


async def test_the_end_that_the_watch_sees_is_on_the_commit_with_the_next_job_of_the_queue(story):
    async with story(pool=IN_CLUSTER) as app:
        await sweep_installation(app.context, app.installation)
        job = await a_job_runs(app)
        assert await record_end(app, pod_of(app, job, app.clock(), KILLED))
        queued = [key.decode() for key in app.context.queue_redis.lrange("rq:queue:report", 0, -1)]
        (key,) = [each for each in queued if each.startswith("post-mortem-")]
        asked = Job.fetch(key, connection=app.context.queue_redis, serializer=JSONSerializer)
        assert await look_into(app.context, *asked.args) is CheckRunOutcome.CREATED
        (posted,) = check_runs(app).values()
        assert (posted["name"], posted["head_sha"]) == ("Runner post-mortem", job.head_sha)


@pytest.mark.parametrize("first", ["cluster", "job"])
async def test_a_clean_exit_that_left_a_job_behind_is_one_death_with_the_jobs_cause(story, first):
    async with story(pool=IN_CLUSTER) as app:
        job, stopped_at = await abandoned(app)
        pod = pod_of(app, job, stopped_at, EXITED)
        if first == "cluster":
            assert await record_end(app, pod)
            (silent,) = await deaths(app)
            assert silent.cause is Cause.CLEAN_EXIT
            await look_into(app.context, app.installation, identity(silent))
        found = await examine_job_of(app.context, app.installation, job.id)
        assert found.cause is Cause.LOST_COMMUNICATION
        for _ in range(2):
            assert not await record_end(app, pod)
            assert await examine_job_of(app.context, app.installation, job.id) is None
        (found,) = await deaths(app)
        assert (found.cause, found.exit_code, found.job.id) == (Cause.LOST_COMMUNICATION, 0, job.id)
        assert await look_into(app.context, app.installation, identity(found), 1) is CheckRunOutcome.CREATED
        causes = [each["cause"] for each in await app.sent_events("runner.died")]
        assert causes == (["clean-exit", "lost-communication"] if first == "cluster" else ["lost-communication"])
        assert len(check_runs(app)) == 1


async def test_findings_from_before_the_pods_end_was_added_do_not_undo_it(story):
    async with story(pool=IN_CLUSTER) as app:
        job, stopped_at = await abandoned(app)
        read_before = await examine_job_of(app.context, app.installation, job.id)
        pod = pod_of(app, job, stopped_at, KILLED)
        await asyncio.gather(
            record_end(app, pod),
            look_into(app.context, app.installation, identity(read_before)),
        )
        await app.context.deaths.enrich(app.installation, read_before._replace(host_log=("oom-kill",)))
        (found,) = await deaths(app)
        assert (found.cause, found.reason, found.exit_code, found.signal) == (Cause.HOST_OOM, "OOMKilled", 137, 9)
        assert (found.pod, found.pod_uid, found.namespace, found.image) == (
            *(job.runner_name, "uid-1", "runners"),
            "runner:7",
        )
        assert found.host_log == ("oom-kill",)


async def of_the_next_pod(app):
    """A runner of a name that a pod had before: its pod, created ten seconds after that one, and its job."""
    await sweep_installation(app.context, app.installation)
    await app.pass_(10)
    created_at = app.clock()
    await app.pass_(10)
    job = await a_job_runs(app)
    return job, Pod("runners", job.runner_name, "uid-2", "9", created_at, runner=Container("runner"))


async def recorded(app, pod, end=None, found_at=None):
    """The death of the first pod, examined once."""
    assert await (recorder(app).record_vanished(pod, found_at) if end is None else record_end(app, pod))
    (found,) = await deaths(app)
    await look_into(app.context, app.installation, identity(found))
    return (await deaths(app))[0]


@pytest.mark.parametrize("how", ["by the next pod", "by when it was found"])
async def test_a_pod_that_is_recorded_late_does_not_get_the_job_of_the_next_one_of_its_name(story, how):
    async with story(pool=IN_CLUSTER) as app:
        job, successor = await of_the_next_pod(app)
        found_at = None
        if how == "by the next pod":
            await app.context.pods.replace_pods("runners", [successor], app.clock())
            await app.context.pods.replace_objects("runners", [], app.clock())
        else:
            found_at = successor.created_at
        await app.pass_(300)
        first = pod_of(app, job, successor.created_at - 3600, None)
        assert (await recorded(app, first, found_at=found_at)).job is None


@pytest.mark.parametrize("ahead", [45.0, -45.0])
async def test_a_clusters_clock_that_is_wrong_gives_a_death_no_job_of_the_next_pod(story, ahead):
    async with story(pool=IN_CLUSTER) as app:
        job, successor = await of_the_next_pod(app)
        shown = successor._replace(created_at=successor.created_at + ahead)
        await app.context.pods.replace_pods("runners", [shown], app.clock(), ahead)
        await app.context.pods.replace_objects("runners", [], app.clock(), ahead)
        first = pod_of(app, job, successor.created_at - 5 + ahead, KILLED)
        found = await recorded(app, first, KILLED)
        assert (found.job, found.at) == (None, successor.created_at - 5 + ahead), "the time shown is the cluster's"


async def test_a_job_whose_start_was_delivered_late_replaces_the_one_before_it(story):
    async with story(pool=IN_CLUSTER) as app:
        await sweep_installation(app.context, app.installation)
        job = await a_job_runs(app)
        await app.pass_(60)
        stopped_at, runner = app.clock(), app.context.runners

        async def reported(job_id, started_at, ended_at=None):
            def fold(evidence):
                began = job_started(evidence, job_id, started_at)
                return began if ended_at is None else job_ended(began, job_id, ended_at, started_at)

            await runner.revise(app.installation, {job.runner_id: fold})

        await reported(job.id, stopped_at - 50, stopped_at - 30)
        before = await recorded(app, pod_of(app, job, stopped_at, KILLED), KILLED)
        assert before.job.id == job.id
        later = (await app.context.demand.one(app.installation, job.id))._replace(id=job.id + 1)
        await app.context.demand.record(app.installation, [later])
        await reported(later.id, stopped_at - 20)
        await look_into(app.context, app.installation, identity(before), 1)
        assert (await deaths(app))[0].job.id == later.id


@pytest.mark.parametrize("first", ["cluster", "job"])
async def test_a_later_death_of_the_same_name_does_not_make_two_of_the_first_one(story, first):
    async with story(pool=IN_CLUSTER) as app:
        job, stopped_at = await abandoned(app)
        pod = pod_of(app, job, stopped_at, KILLED)
        ended = KILLED._replace(finished_at=stopped_at + 100)
        second = pod._replace(uid="uid-2", created_at=stopped_at + 5, runner=Container("runner", ended=ended))
        evidence = (await app.context.runners.all(app.installation))[job.runner_id]
        again = evidence._replace(id=job.runner_id + 500, first_seen=stopped_at + 20, job_id=None, job_started_at=None)

        async def cluster():
            return await record_end(app, pod)

        async def by_job():
            return await examine_job_of(app.context, app.installation, job.id)

        one, other = (cluster, by_job) if first == "cluster" else (by_job, cluster)
        assert await one()
        await app.context.runners.revise(app.installation, {again.id: lambda _: again})
        assert await record_end(app, second)
        for each in (other, one, other):
            assert not await each()
        assert sorted(each.pod_uid for each in await deaths(app)) == ["uid-1", "uid-2"]
        for each in await deaths(app):
            await look_into(app.context, app.installation, identity(each), 2)
        assert len(check_runs(app)) == 1
