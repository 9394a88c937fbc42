"""The check run "Runner gate" on a deployed commit, as the deployer sees it."""

from __future__ import annotations

import asyncio
import copy
from contextlib import contextmanager
from dataclasses import replace

import pytest
from rq import Queue
from rq.serializers import JSONSerializer
from structlog.testing import capture_logs

from ghapp.gate.gate_checks import FORGET_SECONDS, GIVE_UP_SECONDS
from ghapp.gate.store import GateChecks
from ghapp.github.checks import Checks
from ghapp.store import keys
from ghapp.store.metric_counters import MetricCounters
from jobs.checks.publisher import CheckRunOutcome
from jobs.context import open_context
from jobs.reports.gate_report import report_gates_of, waits_for_gate
from tests.stories.gate.test_gate import shards  # noqa: F401 - a fixture

HERE = 'deploy_repository = "acme/infra"\n'
PLACE = "linux-4vcpu/pink"


def repository(app, name="infra"):
    return app.sandbox.world.orgs["acme"].repositories[name]


def check_runs(app, name="infra"):
    return copy.deepcopy(list(repository(app, name).check_runs.values()))


def only(app):
    (run,) = check_runs(app)
    return run


def shown(run):
    return run["status"], run["conclusion"] if run["status"] == "completed" else None, run["output"]["title"]


def calls(app):
    return sum(each["total"] for each in app.account()["calls"].values())


async def look(app):
    """What became of pink's round; None when there was none to look at."""
    return (await report_gates_of(app.context, app.installation)).get(PLACE)


async def deploy(app, sha=None):
    """Pink is deployed from infra's head."""
    sha = sha or app.sandbox.control.head("acme", repository="infra")
    await app.report_deploy("pink", "inactive", sha)
    return sha


async def an_hour(app, more=0.0):
    """It goes by, and a sweep follows. Redis does not know that the token's hour is over, too."""
    await app.context.redis.delete(keys.credential(app.installation))
    await app.live(GIVE_UP_SECONDS + more)


async def receive_requests(app, count=1):
    """Take every delivery, up to so many of people who ask for a check run again."""
    while sum(each.payload["action"] == "rerequested" for each in app.hook.received[: app.taken]) < count:
        await app.receive()


async def waits(app):
    installation = await app.context.installations.one(app.installation)
    return await waits_for_gate(app.context, installation)


async def test_a_deploy_is_followed_from_its_beginning_to_its_success(shards):  # noqa: F811
    async with shards(pink=0, rows=f"{HERE}min_online = 2\nsettle_seconds = 60\n") as app:
        sha = await deploy(app)
        assert await look(app) is CheckRunOutcome.CREATED
        first = only(app)
        assert (first["name"], first["head_sha"]) == ("Runner gate", sha)
        assert shown(first)[:2] == ("in_progress", None)

        app.sandbox.control.register("acme", pool="pink", count=2)
        await app.live()
        assert await look(app) is CheckRunOutcome.UPDATED
        assert shown(only(app)) == ("in_progress", None, "pink passes, and must keep passing")
        assert await waits(app)
        await app.live()
        assert await look(app) is CheckRunOutcome.UPDATED
        done = only(app)
        assert shown(done) == ("completed", "success", "pink passes")
        assert "make pink active in place of purple" in done["output"]["text"]
        assert "no outage" in done["output"]["summary"]

        before = calls(app)
        assert not await waits(app)
        await app.report_deploy("pink", "active")
        assert await look(app) is None, "reported again, it is the same deploy"
        assert calls(app) == before


async def test_a_shard_that_never_comes_up_fails_after_an_hour_with_what_to_do_next(shards):  # noqa: F811
    async with shards(pink=1, rows=f"{HERE}min_online = 2\n") as app:
        await deploy(app)
        await app.live()
        await look(app)
        assert shown(only(app)) == ("in_progress", None, "pink does not pass yet: online")
        await an_hour(app)
        assert await look(app) is CheckRunOutcome.UPDATED
        failed = only(app)
        assert shown(failed) == ("completed", "failure", "pink does not pass: online")
        for words in ("1 runner of pink online, 2 needed", "provision pink again", "break glass", "Warning: "):
            assert words in failed["output"]["text"]
        assert not await waits(app)


async def test_where_github_shows_nothing_since_the_deploy_it_is_timed_out_and_never_neutral(shards):  # noqa: F811
    async with shards(rows=HERE) as app:
        await deploy(app)
        await look(app)
        assert shown(only(app)) == ("in_progress", None, "pink waits for a list of runners since the deploy")
        app.sandbox.control.fault(match="/actions/runners", status=500)
        await an_hour(app)
        await look(app)
        assert shown(only(app)) == ("completed", "timed_out", "pink could not be checked")


async def test_while_nothing_happens_github_is_asked_for_nothing(shards):  # noqa: F811
    async with shards(pink=0, rows=HERE) as app:
        await deploy(app)
        await app.live()
        await look(app)
        before = calls(app)
        for _ in range(5):
            await app.pass_(10)
            assert await look(app) is CheckRunOutcome.NOTHING_TO_DO
        assert calls(app) == before


async def test_a_deploy_from_a_tag_gets_no_check_run(shards):  # noqa: F811
    async with shards(rows=HERE) as app:
        await app.report_deploy("pink", "inactive", "v42")
        assert (await look(app), await waits(app), check_runs(app)) == (None, False, [])


async def test_a_deploy_from_no_repository_gets_no_check_run(shards):  # noqa: F811
    async with shards() as app:
        await deploy(app)
        assert (await look(app), await waits(app), check_runs(app)) == (None, False, [])


async def test_the_same_commit_deployed_twice_has_two_and_reported_twice_has_one(shards):  # noqa: F811
    async with shards(rows=HERE) as app:
        sha = await deploy(app)
        await app.live()
        await look(app)
        await app.pass_(60)
        await deploy(app, sha)
        await app.live()
        assert await look(app) is CheckRunOutcome.CREATED
        assert [shown(run)[1] for run in check_runs(app)] == ["success", "success"]
        assert len({run["external_id"] for run in check_runs(app)}) == 2


async def test_many_workers_at_once_post_one(shards, redis_url, tmp_path):  # noqa: F811
    async with shards(rows=HERE) as app:
        await deploy(app)

        async def work():
            async with open_context(app.settings, app.clock) as context:
                return (await report_gates_of(context, app.installation)).get(PLACE)

        outcomes = await asyncio.gather(*(work() for _ in range(4)))
        assert sorted(outcomes) == sorted([CheckRunOutcome.CREATED, *[CheckRunOutcome.NOTHING_TO_DO] * 3])
        assert len(check_runs(app)) == 1


@contextmanager
def dying(monkeypatch, of, name, number):
    """The process dies where it would call this for another time after so many."""
    calls, true = [], getattr(of, name)

    async def call(*args, **named):
        calls.append(args)
        if len(calls) > number:
            raise SystemExit
        return await true(*args, **named)

    with monkeypatch.context() as patch:
        patch.setattr(of, name, call)
        with pytest.raises(SystemExit):
            yield


@pytest.mark.parametrize(
    "line",
    [
        (Checks, "is_private", 0),
        (GateChecks, "keep", 0),
        (Checks, "find", 0),
        (Checks, "create", 0),
        (GateChecks, "keep", 1),
        (MetricCounters, "add", 0),
    ],
    ids=[
        "before it asks whose eyes are there",
        "before it is remembered",
        "before it is looked for",
        "before it is created",
        "before its creation is remembered",
        "before it is counted",
    ],
)
@pytest.mark.parametrize("again", [False, True], ids=["then it looks again", "then another deploy takes its place"])
async def test_a_crash_between_any_two_lines_leaves_one_that_ends(shards, monkeypatch, line, again):  # noqa: F811
    async with shards(pink=0, rows=HERE) as app:
        first = await deploy(app)
        with dying(monkeypatch, *line):
            await look(app)
        assert len(check_runs(app)) <= 1
        assert await waits(app)
        if again:
            await deploy(app, repository(app).push(app.sandbox.world.now()))
        await look(app)
        ours = [each for each in check_runs(app) if each["head_sha"] == first]
        if again:
            assert [each["conclusion"] for each in ours] == ["cancelled"] * len(ours)
            assert len(check_runs(app)) == len(ours) + 1
        assert len(ours) == 1 or (again and not ours)


async def test_a_superseded_deploy_is_completed_as_superseded(shards, monkeypatch):  # noqa: F811
    async with shards(pink=0, rows=HERE) as app:
        await deploy(app)
        await look(app)
        head = repository(app).push(app.sandbox.world.now())
        await deploy(app, head)
        app.sandbox.control.fault(match="/check-runs", status=502, times=1)
        assert await look(app) is None, "the first is ended before the second begins"
        assert await waits(app)
        for line in ((Checks, "update", 0), (GateChecks, "keep", 0)):
            with dying(monkeypatch, *line):
                await look(app)
        assert await look(app) is CheckRunOutcome.CREATED
        first, second = check_runs(app)
        assert shown(first) == ("completed", "cancelled", "pink was deployed again")
        assert (second["head_sha"], second["status"]) == (head, "in_progress")
        before = calls(app)
        await look(app)
        assert calls(app) == before


@pytest.mark.parametrize("ref", ["v42", ""], ids=["a tag", "nothing"])
async def test_a_deploy_from_a_tag_ends_the_round_of_the_commit_before(shards, ref):  # noqa: F811
    async with shards(pink=0, rows=HERE) as app:
        await deploy(app)
        await look(app)
        await app.report_deploy("pink", "inactive", ref)
        assert await waits(app)
        await look(app)
        assert only(app)["conclusion"] == "cancelled"
        assert not await waits(app)


async def test_where_the_overtaken_commit_may_not_be_written_to_the_next_one_does_not_wait(shards):  # noqa: F811
    async with shards(pink=0, rows=HERE) as app:
        await deploy(app)
        await look(app)
        await deploy(app, repository(app).push(app.sandbox.world.now()))
        app.sandbox.control.fault(match="/check-runs/", status=403, times=1)
        with capture_logs() as logs:
            assert await look(app) is CheckRunOutcome.CREATED
        assert [each["event"] for each in logs if each["log_level"] == "warning"] == ["gate not ended"]


async def test_hundreds_of_deploys_in_an_hour_cost_a_few_calls_each_and_leave_one_waiting(shards):  # noqa: F811
    async with shards(pink=0, rows=HERE) as app:
        before, many = calls(app), 25
        for _ in range(many):
            await deploy(app, repository(app).push(app.sandbox.world.now()))
            await look(app)
            await app.pass_(10)
            await look(app)
        assert calls(app) - before <= 4 * many, "is it private, is there one, create it, end the last"
        assert [each["status"] for each in check_runs(app)].count("in_progress") == 1


@pytest.mark.parametrize(("status", "tried"), [(502, 6), (410, 1), (451, 1), (301, 6)])
async def test_a_permanent_refusal_is_not_repeated_at_each_look(shards, status, tried):  # noqa: F811
    async with shards(pink=0, rows=HERE) as app:
        await deploy(app)
        app.sandbox.control.fault(match="/repos/acme/infra", status=status)
        before = calls(app)
        for _ in range(6):
            await look(app)
            await app.pass_(10)
        assert calls(app) - before == tried


async def test_a_date_by_a_clock_that_had_jumped_delays_no_post(shards):  # noqa: F811
    async with shards(pink=0, rows=HERE) as app:
        await deploy(app)
        app.sandbox.control.fault(match="check-runs", method="POST", status=422)
        assert await look(app) is CheckRunOutcome.REFUSED
        gates = GateChecks(app.context.redis)
        begun = (await gates.list(app.installation))[PLACE]
        await gates.keep(app.installation, PLACE, begun._replace(again_at=app.clock() + 86_400))
        assert await look(app) is CheckRunOutcome.REFUSED


async def test_a_deleted_check_run_is_created_again(shards):  # noqa: F811
    async with shards(rows=HERE) as app:
        await deploy(app)
        await look(app)
        repository(app).check_runs.clear()
        await app.live()
        assert await look(app) is CheckRunOutcome.CREATED
        assert shown(only(app))[1] == "success"


async def test_a_deleted_check_run_that_github_refuses_is_missed_without_any_change(shards):  # noqa: F811
    async with shards(pink=1, rows=f"{HERE}min_online = 2\n") as app:
        await deploy(app)
        await app.live()
        assert await look(app) is CheckRunOutcome.CREATED
        repository(app).check_runs.clear()
        app.sandbox.control.take_offline("acme", ids=app.runners("pink"), alive=False)
        app.sandbox.control.fault(match="check-runs", method="POST", status=422, times=1)
        await app.live()
        assert await look(app) is CheckRunOutcome.REFUSED
        app.sandbox.control.bring_online("acme", ids=app.runners("pink"))
        await app.live(300)
        assert await look(app) is CheckRunOutcome.CREATED


async def test_a_missing_commit_is_logged_once_and_retried_each_five_minutes(shards):  # noqa: F811
    async with shards(rows=HERE) as app:
        await deploy(app)
        await app.pass_(60)
        app.sandbox.control.fault(match="check-runs", method="POST", status=422)
        with capture_logs() as lines:
            assert await look(app) is CheckRunOutcome.REFUSED
            before = calls(app)
            await app.pass_(299)
            assert await look(app) is CheckRunOutcome.NOTHING_TO_DO
            assert calls(app) == before
            await app.pass_(1)
            assert await look(app) is CheckRunOutcome.REFUSED
        assert [line["reason"] for line in lines if line["event"] == "gate not reported"] == ["refused"]
        assert await waits(app)
        await an_hour(app, FORGET_SECONDS)
        await look(app)
        assert not await waits(app), "it is left"


async def test_without_the_permission_nothing_is_asked_for_until_it_is_granted(shards):  # noqa: F811
    async with shards(rows=HERE) as app:
        await deploy(app)
        held = {"organization_self_hosted_runners": "write", "actions": "read", "metadata": "read"}
        installation = await app.context.installations.one(app.installation)
        await app.context.installations.put(replace(installation, permissions=held))
        before = calls(app)
        assert [await look(app), await look(app)] == [
            CheckRunOutcome.PERMISSION_MISSING,
            CheckRunOutcome.NOTHING_TO_DO,
        ]
        assert calls(app) == before
        await app.context.installations.put(installation)
        await app.live(300)
        assert await look(app) is CheckRunOutcome.CREATED
        assert shown(only(app))[1] == "success"


async def test_while_github_is_away_it_is_tried_at_each_look(shards):  # noqa: F811
    async with shards(rows=HERE) as app:
        await deploy(app)
        await app.live()
        app.sandbox.control.fault(match="/repos/", status=502)
        assert await look(app) is CheckRunOutcome.UNAVAILABLE
        app.sandbox.control.no_faults()
        assert await look(app) is CheckRunOutcome.CREATED
        assert not await waits(app), "it has passed, and the result was published"
        counted = await app.context.counters.all()
    assert counted['ghapp_reports_total{org="acme",outcome="unavailable"}'] == 1
    assert counted['ghapp_reports_total{org="acme",outcome="created"}'] == 1


@pytest.mark.parametrize("whole", [False, True], ids=["a check run", "all of the commit"])
async def test_asked_for_again_it_gets_another_hour(shards, whole):  # noqa: F811
    async with shards(pink=0, rows=HERE) as app:
        sha = await deploy(app)
        await app.live()
        await look(app)
        await an_hour(app)
        await look(app)
        assert shown(only(app))[1] == "failure"
        app.sandbox.control.register("acme", pool="pink", count=1)
        await app.live()
        assert await look(app) is None, "it is over"

        if whole:
            payload = {
                "action": "rerequested",
                "installation": {"id": app.installation},
                "repository": {"full_name": "acme/infra"},
                "check_suite": {"head_sha": sha},
            }
            app.sandbox.control.deliver("acme", event="check_suite", payload=payload)
        else:
            (check_run,) = repository(app).check_runs
            app.sandbox.control.click("acme", check_run_id=check_run)
        await receive_requests(app)
        queue_redis = Queue("report", connection=app.context.queue_redis, serializer=JSONSerializer)
        assert f"gate-{app.installation}" in queue_redis.job_ids
        await app.live()
        assert await look(app) is CheckRunOutcome.UPDATED
        assert shown(only(app)) == ("completed", "success", "pink passes")
        assert (await app.context.counters.all())['ghapp_check_requests_total{done="began-again"}'] == 1


async def test_another_check_run_asked_for_again_begins_nothing(shards):  # noqa: F811
    async with shards(rows=HERE) as app:
        await deploy(app)
        await app.live()
        await look(app)
        (ours,) = check_runs(app)
        repository(app).check_runs[1] = {**ours, "external_id": "theirs"}
        repository(app, "api").check_runs[2] = ours
        for check_run in (1, 2):
            app.sandbox.control.click("acme", check_run_id=check_run)
        await receive_requests(app, 2)
        assert not await waits(app)
        counted = await app.context.counters.all()
        assert counted['ghapp_check_requests_total{done="ignored"}'] >= 2
        assert not any("began-again" in name for name in counted)


async def test_the_same_commit_asked_for_again_in_another_repository_begins_nothing(shards):  # noqa: F811
    async with shards(rows=HERE) as app:
        sha = await deploy(app)
        await app.live()
        await look(app)
        payload = {
            "action": "rerequested",
            "installation": {"id": app.installation},
            "repository": {"full_name": "acme/fork"},
            "check_suite": {"head_sha": sha},
        }
        app.sandbox.control.deliver("acme", event="check_suite", payload=payload)
        await receive_requests(app)
        assert not await waits(app)


@pytest.mark.parametrize("private", [True, False], ids=["private", "public"])
async def test_names_of_repositories_are_shown_to_invited_people_alone(shards, private, monkeypatch):  # noqa: F811
    async with shards(rows=HERE) as app:

        async def is_private(_checks):
            return private

        monkeypatch.setattr("ghapp.github.checks.Checks.is_private", is_private)
        await app.work_on("purple", 2)
        await deploy(app)
        await app.live()
        await look(app)
        text = only(app)["output"]["text"]
    assert "purple, which is active, runs 2 jobs" in text
    assert ("acme/api" in text) is private
