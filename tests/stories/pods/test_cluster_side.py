"""The cluster side from end to end: roles as processes, with no more rights than the manifests grant them."""

from __future__ import annotations

import time
from datetime import datetime
from functools import partial

import pytest

from ghapp.cluster.access import NEAR_RUNNERS
from ghapp.leaks.store import Leaks
from ghapp.pods.blockers import Blocker
from ghapp.pods.deletion_guards import REGISTRATION_FINALIZER, TERMINATING_SECONDS
from ghapp.queue import jobs
from ghapp.queue.jobs import JobName
from ghapp.runners.deletion_progress import LEAST_PAUSE_SECONDS
from ghapp.sandbox.cluster.shapes import FINALIZER
from tests.manifests.rendered import objects
from tests.manifests.test_access import granted
from tests.stories.cluster_story import ARC, JOBS, PODS, site
from tests.stories.fast_timings import FAST
from tests.stories.processes import FAST_TIMINGS
from tests.stories.sites import ACCOUNTS, HOME, NAMESPACE, WATCH, WORKER
from tests.support.cluster import users_of
from tests.support.local_redis import embedded_redis
from tests.support.ports import free_port
from tests.support.running import running
from tests.support.waiting import wait_for

ONE_FLEET = pytest.mark.xdist_group("cluster-side")
"""They share one fleet, and each takes a runner of its own out of it."""

IN_THE_MIDST = 25
CHANGING = ("create", "update", "patch", "delete")
LAST_WORDS = ["[RUNNER INFO JobDispatcher] Running job: build"]
CLEAN_WORDS = [
    "Job build completed with result: Succeeded",
    "Runner listener exit with 0 return code, stop the service",
]


@pytest.fixture(scope="module")
def site_of_all(tmp_path_factory):
    """Everything that a deployment runs, and four runners of each kind."""
    roles = ("web", "worker", "worker", "clock", "watch")
    with site(tmp_path_factory.mktemp("fleet"), *roles, arc=4, pods=4, jobs=4) as app:
        app.control.kubelet_deletes_after(0)
        app.stand(ARC, of_arc=True)
        app.stand(PODS)
        app.stand(JOBS)
        app.knows(12)
        app.sees()
        yield app


@pytest.fixture
def fleet(site_of_all, request):
    """That, and it keeps in mind which stories it has lived through."""
    yield site_of_all
    site_of_all.lived.add(request.node.name)


def a_job_runs(app, repository):
    """On some runner, and its delivery has taken effect."""
    (job_id,) = app.github.control.queue("acme", labels=[JOBS], repository=repository)
    job = app.github.world.orgs["acme"].fleet.jobs[job_id]
    app.until(lambda: job.runner_name)
    took = f"took job {job_id}"
    app.until(lambda: took in [each["text"] for each in app.health(job.runner_id)["evidence"]])
    return job


def deaths_sent(app, name):
    """How its end was reported to the controller."""
    return [each["data"] for each in app.events("runner.died") if each["subject"] == name]


@pytest.mark.xdist_group("cluster-leader")
def test_a_leader_that_is_killed_during_fifty_deaths_loses_none_and_reports_none_twice(tmp_path):
    with site(tmp_path, "worker", "worker", "clock", "watch", "watch", patience=FAST_TIMINGS, jobs=50) as app:
        names = app.stand(JOBS)
        app.knows(50)
        app.sees()
        asks_for_a_log = app.control.hangs(users=[WATCH], resources=["pods/log"], names=names[IN_THE_MIDST:40])
        app.ends(*names[:40])
        app.until(lambda: asks_for_a_log.affected and app.recorded() == IN_THE_MIDST)
        app.until(lambda: app.shown_ended() == set(names[:40]))
        first, second = sorted((each for each in app.began if each.name == "watch"), key=app.leads, reverse=True)
        first.kill_all()
        assert app.recorded() == IN_THE_MIDST, "it was killed while it recorded several"
        asks_for_a_log.end()
        for name in names[38:]:
            app.control.vanish(NAMESPACE, name)  # while no watch runs, and two of them had ended
        app.until(lambda: app.leads(second), FAST.lock_seconds + 5)
        app.until(lambda: app.recorded() == 50)
        app.until(lambda: len(app.events("runner.died")) >= 50)
        app.until(lambda: not app.waits("post-mortem") and not app.waits("notify"))
        assert sorted(each["subject"] for each in app.events("runner.died")) == names
        causes = {each["subject"]: each["data"]["cause"] for each in app.events("runner.died")}
        assert {causes[name] for name in names[:40]} == {"host-oom"}, "their ends were shown before the kill"
        assert {causes[name] for name in names[40:]} == {"vanished"}
        assert app.recorded() == 50
        text = [each["pod"] for each in app.lines("runner pod terminated")]
        assert set(text) == set(names)
        assert len(text) == len(names), "each end is logged once"


@pytest.mark.xdist_group("cluster-away")
def test_while_the_api_server_is_away_no_pod_counts_as_absent_and_afterwards_no_death_is_missing(tmp_path):
    with site(tmp_path, "web", "worker", "clock", "watch", patience=FAST_TIMINGS, jobs=8, pods=2) as app:
        names = app.stand(JOBS)
        app.stand(PODS)
        app.knows(10)
        app.sees()
        pod, lost = next(iter(app.runners(PODS).items()))
        app.github.control.lose("acme", ids=[lost])
        with app.control.fails(503, users=[WORKER]):
            app.until(lambda: app.lines("replacement waits", "worker"))
            for name, away in zip(
                names, (app.control.resets, app.control.fails, partial(app.control.hangs, 3600)), strict=False
            ):
                with away(users=[WATCH]) as trouble:
                    app.control.cut_watches("reset")
                    app.ends(name)
                    app.until(lambda trouble=trouble: trouble.affected >= 3)
                app.until(lambda name=name: deaths_sent(app, name))
            (waits,) = app.lines("replacement waits", "worker")
            assert (waits["runner"], waits["because"]) == (pod, Blocker.CLUSTER_UNAVAILABLE)
            assert app.removals() == 0, "without a view of the pod nothing is removed"
        app.ends(names[3])
        app.until(lambda: deaths_sent(app, names[3]))
        assert app.recorded() == 4, "and the others live"
        app.remediate(lost, LEAST_PAUSE_SECONDS)  # what the next sweep asks for then, if none has yet
        app.until(lambda: replaced(app, lost))
        assert ("delete", "pods", pod, 200) in app.asked(WORKER, "delete")
        assert app.lines("watch failed")
        assert all(each.process.poll() is None for each in app.began), "no process exited"


@pytest.mark.xdist_group("cluster-ends")
def test_while_redis_is_away_the_watch_waits_and_afterwards_no_death_is_missing(tmp_path):
    with site(tmp_path, "worker", "clock", "watch", jobs=4) as app:
        names = app.stand(JOBS)
        app.knows(4)
        app.sees()
        app.redis.close()
        app.ends(names[0])
        app.control.vanish(NAMESPACE, names[1])
        app.until(lambda: app.lines("Redis unavailable, retrying"))
        app.ends(names[2])
        app.redis.enter_context(embedded_redis(tmp_path / "redis", durable=True))
        for name, cause in zip(names, ("host-oom", "vanished", "host-oom"), strict=False):
            (reported,) = app.until(lambda name=name: deaths_sent(app, name))
            assert reported["cause"] == cause
        assert app.recorded() == 3
        assert all(each.process.poll() is None for each in app.began), "no process exited"


@ONE_FLEET
def test_a_runner_that_is_killed_under_its_job_is_explained_to_everyone_who_asks(fleet):
    app = fleet
    job = a_job_runs(app, "api")
    name = job.runner_name
    app.ends(name, log=LAST_WORDS)
    app.github.control.take_offline("acme", ids=[job.runner_id], alive=False)

    death = app.until(lambda: app.death(name))
    assert (death["cause"], death["exit_code"], death["signal"], death["reason"]) == ("host-oom", 137, 9, "OOMKilled")
    assert (death["pod"], death["node"], death["runner_log"]) == (name, "node-1", LAST_WORDS)
    (line,) = [each for each in app.lines("runner pod terminated") if each["pod"] == name]
    shown = {key: line[key] for key in ("exitCode", "signal", "reason", "cause", "runner", "org")}
    assert shown == {
        "exitCode": 137,
        "signal": 9,
        "reason": "OOMKilled",
        "cause": "host-oom",
        "runner": name,
        "org": "acme",
    }
    (reported,) = app.until(lambda: deaths_sent(app, name))
    assert (reported["cause"], reported["job"]["id"], reported["job"]["repository"]) == ("host-oom", job.id, "acme/api")
    app.until(lambda: not app.waits("post-mortem"))
    posted = app.check_runs("api")["Runner post-mortem"]
    assert (posted["head_sha"], posted["conclusion"]) == (job.head_sha, "action_required")
    assert posted["output"]["title"] == "The runner was killed because its container reached its memory limit"

    app.github.control.finish("acme", job_id=job.id, lost=True)
    explained = app.command("explain", "acme", name)
    assert "host-oom" in explained
    assert "resources.limits.memory" in explained
    assert len(deaths_sent(app, name)) == 1


PROMISED_SECONDS = 15.0
"""From the end of a runner's container to the post-mortem on the commit of its job."""


@pytest.mark.xdist_group("cluster-ends")
def test_a_post_mortem_waits_for_nothing_that_is_due_later_and_is_completed_with_the_log(tmp_path):
    """Without the clock nothing that was asked for with a delay ever runs, and nothing that is asked for each minute."""
    with site(tmp_path, "web", "worker", "clock", "watch", jobs=2) as app:
        app.stand(JOBS)
        app.knows(2)
        app.sees()
        job = a_job_runs(app, "api")
        name = job.runner_name
        (clock,) = [each for each in app.began if each.name == "clock"]
        clock.process.terminate()
        clock.process.wait(30)
        with app.control.fails(503, users=[WATCH], resources=["pods/log"]):
            app.ends(name, log=LAST_WORDS)
            posted = app.until(lambda: app.check_runs("api").get("Runner post-mortem"))
            assert app.death(name)["runner_log"] == []
        assert (posted["head_sha"], posted["conclusion"]) == (job.head_sha, "action_required")
        (status,) = app.control.object("pods", NAMESPACE, name)["status"]["containerStatuses"]
        ended_at = datetime.fromisoformat(status["state"]["terminated"]["finishedAt"])
        assert (datetime.fromisoformat(posted["started_at"]) - ended_at).total_seconds() <= PROMISED_SECONDS
        assert app.until(lambda: app.death(name)["runner_log"]) == LAST_WORDS


@ONE_FLEET
def test_a_clean_exit_is_reported_and_posts_no_check_run(fleet):
    app = fleet
    job = a_job_runs(app, "web")
    app.github.control.finish("acme", job_id=job.id)
    app.ends(job.runner_name, exit_code=0, reason="Completed", log=CLEAN_WORDS)
    (reported,) = app.until(lambda: [each for each in app.events("runner.died") if each["subject"] == job.runner_name])
    assert reported["data"]["cause"] == "clean-exit"
    app.until(lambda: not app.waits("post-mortem"))
    assert app.asked_for(f"post-mortem-{reported['id']}") == set(), "no further attempt is enqueued"
    assert app.check_runs("web") == {}


@ONE_FLEET
def test_a_lost_runner_of_arcs_is_replaced_by_deleting_its_object_and_nothing_else(fleet):
    app = fleet
    name, lost = next(iter(app.runners(ARC).items()))
    others = set(app.control.names("ephemeralrunners", NAMESPACE)) - {name}
    before, removals = len(app.asked(WORKER, *CHANGING)), app.removals()
    late = app.control.hangs(0.5, verbs=["delete"], resources=["ephemeralrunners"], times=1)
    app.github.control.lose("acme", ids=[lost])
    app.until(lambda: late.affected)
    app.control.set_labels("ephemeralrunners", NAMESPACE, name, touched="between-the-look-and-the-deletion")
    app.until(lambda: "deletionTimestamp" in app.control.object("ephemeralrunners", NAMESPACE, name)["metadata"])
    app.until(lambda: not app.health(lost)["replace"])

    changes = app.asked(WORKER, *CHANGING)[before:]
    assert changes == [("delete", "ephemeralrunners", name, code) for code in (409, 200)], "on what was looked at alone"
    assert "deletionTimestamp" not in app.control.object("pods", NAMESPACE, name)["metadata"], "that is for ARC to do"
    assert app.removals() == removals, "and the registration too"
    text = [each["text"] for each in app.health(lost)["evidence"]]
    assert "the cluster accepted the deletion of ARC's object" in text

    app.control.release("ephemeralrunners", NAMESPACE, name)  # what ARC does then
    assert name not in app.control.names("pods", NAMESPACE)
    assert set(app.control.names("ephemeralrunners", NAMESPACE)) == others


@ONE_FLEET
def test_a_lost_runner_of_another_controller_is_replaced_by_deleting_its_pod_and_service_account(fleet):
    app = fleet
    before = len(app.asked(WORKER, "delete"))
    name, lost = next(iter(app.runners(PODS).items()))
    app.github.control.lose("acme", ids=[lost])
    app.until(lambda: name not in app.control.names("serviceaccounts", NAMESPACE))
    app.until(lambda: name not in app.control.names("pods", NAMESPACE))
    assert app.asked(WORKER, "delete")[before:] == [
        ("delete", "pods", name, 200),
        ("delete", "serviceaccounts", name, 200),
    ]
    assert set(app.runners(PODS)) <= set(app.control.names("pods", NAMESPACE))
    account = app.github.control.account()
    assert account["wrongful_removals"] == account["wrongful_replacements"] == []


@ONE_FLEET
def test_a_pod_that_its_controller_has_claimed_is_left_until_the_claim_runs_out(fleet):
    app = fleet
    name, lost = next(iter(app.runners(PODS).items()))
    claim = f"/v1/orgs/acme/claims/{name}"
    assert app.web.put(claim, json={"ttl_seconds": 600}).status_code == 204
    app.github.control.lose("acme", ids=[lost])
    app.until(lambda: app.health(lost)["state"] == "invalidated")
    sweeps = len(app.lines("swept", "worker"))
    app.until(lambda: len(app.lines("swept", "worker")) >= sweeps + 2)
    assert app.health(lost)["replace"] is False
    assert [each for each in app.asked(WORKER, "delete") if each[2] == name] == []

    at = time.time()
    assert app.web.put(claim, json={"ttl_seconds": 1}).status_code == 204
    app.until(lambda: name not in app.control.names("pods", NAMESPACE))
    text = {each["text"]: each["at"] for each in app.until(lambda: replaced(app, lost))}
    assert datetime.fromisoformat(text["replacement accepted"]).timestamp() >= at + 1


def replaced(app, runner_id):
    """Its evidence, once its replacement is recorded."""
    evidence = app.health(runner_id)["evidence"]
    return evidence if "replacement accepted" in [each["text"] for each in evidence] else None


@ONE_FLEET
def test_the_reaper_examines_stamped_pods_and_keeps_a_new_one(fleet):
    app = fleet
    app.control.pod(NAMESPACE, "stamped", labels={"ghapp.dev/owner": PODS}, service_account="stamped", age_seconds=60)
    tick = app.until(lambda: reaped(app))
    assert (tick.stamped, tick.reaped, tick.deferred) == (1, 0, 0)
    assert "stamped" in app.control.names("pods", NAMESPACE)


def reaped(app):
    """What a tick came to that saw a stamped pod; the clock asks for one a minute, and here there is one at once."""
    jobs.enqueue(app.queue_redis, JobName.REAP, app.installation, key=f"reap-{app.installation}", retry=False)
    tick = app.read(lambda redis: Leaks(redis).last(app.installation))
    return tick if tick.stamped and not tick.trouble else None


@ONE_FLEET
def test_an_object_that_is_stuck_for_two_minutes_is_freed_of_the_finalizer_that_waits_for_github(fleet):
    app = fleet
    name, lost = next(iter(app.runners(ARC).items()))
    app.github.control.lose("acme", ids=[lost])
    app.until(lambda: "deletionTimestamp" in app.control.object("ephemeralrunners", NAMESPACE, name)["metadata"])
    app.until(lambda: replaced(app, lost))

    def finalizers():
        return app.control.object("ephemeralrunners", NAMESPACE, name)["metadata"]["finalizers"]

    assert app.remediate(lost, seconds_from_now=60) in ("waiting", "still-waiting"), "a worker may have looked first"
    assert finalizers() == [FINALIZER, REGISTRATION_FINALIZER]
    assert app.remediate(lost, seconds_from_now=TERMINATING_SECONDS + 1) == "freed"
    assert finalizers() == [FINALIZER], "ARC needs that one, to remove what belongs to it"
    assert [each[0] for each in app.asked(WORKER, "delete", "patch") if each[2] == name] == ["delete", "patch"]
    app.control.release("ephemeralrunners", NAMESPACE, name)
    assert app.remediate(lost, seconds_from_now=TERMINATING_SECONDS + 40) == "gone"


STORIES = (
    test_a_runner_that_is_killed_under_its_job_is_explained_to_everyone_who_asks,
    test_a_lost_runner_of_arcs_is_replaced_by_deleting_its_object_and_nothing_else,
    test_a_lost_runner_of_another_controller_is_replaced_by_deleting_its_pod_and_service_account,
    test_the_reaper_examines_stamped_pods_and_keeps_a_new_one,
    test_an_object_that_is_stuck_for_two_minutes_is_freed_of_the_finalizer_that_waits_for_github,
)
"""Between them they use every right."""

UNUSED: set[tuple[str, str, str]] = set()
"""Rights that no story uses, by role, verb and resource: none. An entry needs its reason here."""


@ONE_FLEET
def test_every_right_that_the_manifests_grant_is_used_and_no_other(fleet):
    """Alone, or on another machine than the others, it lives through them itself."""
    for story in STORIES:
        if story.__name__ not in fleet.lived:
            story(fleet)
    calls = fleet.control.calls()
    assert {each.user for each in calls} == {WATCH, WORKER}, "no other role makes calls"
    for role, user in ACCOUNTS.items():
        used = {right_of(each) for each in calls if each.user == user} - REVIEWS
        rights = {
            (verb, group, resource, namespace)
            for namespace in (NAMESPACE, HOME)
            for verb, group, resource, _ in granted("dev", role, namespace)
        }
        needed = {(each.verb, each.group, each.rbac_resource, NAMESPACE) for each in NEAR_RUNNERS if each.role == role}
        unused = {each for each in rights if (role, each[0], each[2]) in UNUSED}
        assert used == rights - unused
        assert used == needed - unused


REVIEWS = {("create", "authorization.k8s.io", "selfsubjectaccessreviews", "")}
"""Everyone may ask what they may."""


def right_of(call):
    resource = f"{call.resource}/{call.subresource}" if call.subresource else call.resource
    return call.verb, call.group, resource, call.namespace


@pytest.mark.xdist_group("cluster-ends")
@pytest.mark.parametrize("weather", ["fair", "a-hanging-cluster", "no-redis"])
def test_asked_to_end_the_watch_does_within_ten_seconds_and_releases_the_lock(tmp_path, weather):
    with site(tmp_path, "watch", patience=FAST_TIMINGS, jobs=1) as app:
        (watch,) = app.began
        app.stand(JOBS)
        app.until(lambda: app.leads(watch))
        app.sees()
        if weather == "a-hanging-cluster":
            trouble = app.control.hangs(3600)
            app.control.cut_watches("reset")
            app.until(lambda: trouble.affected)
        elif weather == "no-redis":
            app.redis.close()
            app.control.bookmark()
            app.until(lambda: app.lines("Redis unavailable, retrying"))
        watch.process.terminate()
        assert watch.process.wait(10) == 0, watch.log
        if weather != "no-redis":  # there the lock expires
            assert app.leader() == ""


@pytest.mark.xdist_group("cluster-ends")
def test_up_watches_the_cluster_where_one_is_configured_and_ends_the_watch_with_the_rest(tmp_path):
    with site(tmp_path, jobs=2) as app:
        names = app.stand(JOBS)
        app.control.user("up", [rule for each in users_of(objects("dev")).values() for rule in each])
        kubeconfig = app.api.kubeconfig(tmp_path / "kubeconfig", "up", HOME)
        more = {**app.environ, "KUBECONFIG": str(kubeconfig)}
        with running(app.github, tmp_path, free_port(), more=more) as up:
            (watch,) = up.processes("watch")
            app.until(lambda: f"-{watch}-" in app.leader())
            app.knows(2)
            app.sees()
            app.ends(names[0])
            assert wait_for(lambda: deaths_sent(app, names[0])), up.log()
        assert app.leader() == "", "it received SIGTERM and was not killed"
