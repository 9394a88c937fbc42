"""The cluster side from end to end: roles as processes, with no more rights than the manifests grant them."""

from __future__ import annotations

import time
from datetime import datetime
from functools import partial

import pytest

from ghapp import work
from ghapp.cluster.access import AT_HOME, NEAR_RUNNERS, WATCH_LEASE
from ghapp.cluster.lease import LEASE_SECONDS
from ghapp.embedded import embedded_redis
from ghapp.health.cluster.deletable import REGISTRATION_FINALIZER, TERMINATING_SECONDS
from ghapp.health.cluster.deletion import LEAST_PAUSE_SECONDS
from ghapp.health.cluster.obstacle import Because
from ghapp.sandbox.cluster import FINALIZER, users_of
from ghapp.store.leaks import Leaks
from ghapp.work import Work
from tests.manifests.rendered import objects
from tests.manifests.test_access import granted
from tests.running import running
from tests.stories.clusters import ARC, JOBS, PODS, site
from tests.stories.processes import HURRIED, wait_for
from tests.stories.sites import ACCOUNTS, HOME, NAMESPACE, WATCH, WORKER
from tests.stories.test_up import free_port

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
    with site(tmp_path_factory.mktemp("fleet"), *roles, arc=4, pods=4, jobs=4) as it:
        it.control.kubelet_deletes_after(0)
        it.stand(ARC, of_arc=True)
        it.stand(PODS)
        it.stand(JOBS)
        it.knows(12)
        it.sees()
        yield it


@pytest.fixture
def fleet(site_of_all, request):
    """That, and it keeps in mind which stories it has lived through."""
    yield site_of_all
    site_of_all.lived.add(request.node.name)


def a_job_runs(it, repository):
    """On some runner, and its delivery has taken effect."""
    (job_id,) = it.github.control.queue("acme", labels=[JOBS], repository=repository)
    job = it.github.world.orgs["acme"].fleet.jobs[job_id]
    it.until(lambda: job.runner_name)
    took = f"took job {job_id}"
    it.until(lambda: took in [each["said"] for each in it.health(job.runner_id)["evidence"]])
    return job


def told_of(it, name):
    """How its end was told to the controller."""
    return [each["data"] for each in it.events("runner.died") if each["subject"] == name]


@pytest.mark.xdist_group("cluster-leader")
def test_a_leader_that_is_killed_in_the_midst_of_fifty_deaths_loses_none_and_none_is_told_twice(tmp_path):
    with site(tmp_path, "worker", "worker", "clock", "watch", "watch", patience=HURRIED, jobs=50) as it:
        names = it.stand(JOBS)
        it.knows(50)
        it.sees()
        asks_for_a_log = it.control.hangs(users=[WATCH], resources=["pods/log"], names=[names[IN_THE_MIDST]])
        it.ends(*names[:40])
        it.until(lambda: asks_for_a_log.struck)
        first, second = sorted((each for each in it.began if each.name == "watch"), key=it.leads, reverse=True)
        first.kill_all()
        assert 20 <= it.recorded() < 38, "it was killed in the midst"
        asks_for_a_log.end()
        for name in names[38:]:
            it.control.vanish(NAMESPACE, name)  # while nobody looks, and two of them had ended
        it.until(lambda: it.leads(second), LEASE_SECONDS + 5)
        it.until(lambda: it.recorded() == 50)
        it.until(lambda: len(it.events("runner.died")) >= 50)
        it.until(lambda: not it.waits("post-mortem") and not it.waits("notify"))
        assert sorted(each["subject"] for each in it.events("runner.died")) == names
        causes = {each["subject"]: each["data"]["cause"] for each in it.events("runner.died")}
        assert {causes[name] for name in names[:38]} == {"host-oom"}
        assert {causes[name] for name in names[40:]} == {"vanished"}
        assert it.recorded() == 50
        said = [each["pod"] for each in it.lines("runner pod terminated")]
        assert set(said) == set(names)
        assert len(said) <= len(names) + 1, "what it was at when it was killed may be said again"


@pytest.mark.xdist_group("cluster-away")
def test_while_the_api_server_is_away_nothing_is_taken_for_gone_and_afterwards_no_death_is_missing(tmp_path):
    with site(tmp_path, "web", "worker", "clock", "watch", patience=HURRIED, jobs=8, pods=2) as it:
        names = it.stand(JOBS)
        it.stand(PODS)
        it.knows(10)
        it.sees()
        pod, lost = next(iter(it.runners(PODS).items()))
        it.github.control.lose("acme", ids=[lost])
        with it.control.fails(503, users=[WORKER]):
            it.until(lambda: it.lines("replacement waits", "worker"))
            for name, away in zip(
                names, (it.control.resets, it.control.fails, partial(it.control.hangs, 3600)), strict=False
            ):
                with away(users=[WATCH]) as trouble:
                    it.control.cut_watches("reset")
                    it.ends(name)
                    it.until(lambda trouble=trouble: trouble.struck >= 3)
                it.until(lambda name=name: told_of(it, name))
            (waits,) = it.lines("replacement waits", "worker")
            assert (waits["runner"], waits["because"]) == (pod, Because.CLUSTER_UNAVAILABLE)
            assert it.removals() == 0, "whoever cannot see the pod takes nothing away"
        it.ends(names[3])
        it.until(lambda: told_of(it, names[3]))
        assert it.recorded() == 4, "and the others live"
        it.remediate(lost, LEAST_PAUSE_SECONDS)  # what the next sweep asks for then, if none has yet
        it.until(lambda: replaced(it, lost))
        assert ("delete", "pods", pod, 200) in it.asked(WORKER, "delete")
        assert it.lines("watch sees nothing")
        assert all(each.process.poll() is None for each in it.began), "nobody gave up"


@pytest.mark.xdist_group("cluster-ends")
def test_while_redis_is_away_the_watch_waits_and_afterwards_no_death_is_missing(tmp_path):
    with site(tmp_path, "worker", "clock", "watch", jobs=4) as it:
        names = it.stand(JOBS)
        it.knows(4)
        it.sees()
        it.redis.close()
        it.ends(names[0])
        it.control.vanish(NAMESPACE, names[1])
        it.until(lambda: it.lines("watch waits for Redis"))
        it.ends(names[2])
        it.redis.enter_context(embedded_redis(tmp_path / "redis", durable=True))
        for name, cause in zip(names, ("host-oom", "vanished", "host-oom"), strict=False):
            (told,) = it.until(lambda name=name: told_of(it, name))
            assert told["cause"] == cause
        assert it.recorded() == 3
        assert all(each.process.poll() is None for each in it.began), "nobody gave up"


@ONE_FLEET
def test_a_runner_that_is_killed_under_its_job_is_explained_to_everyone_who_asks(fleet):
    it = fleet
    job = a_job_runs(it, "api")
    name = job.runner_name
    it.ends(name, log=LAST_WORDS)
    it.github.control.take_offline("acme", ids=[job.runner_id], alive=False)

    death = it.until(lambda: it.death(name))
    assert (death["cause"], death["exit_code"], death["signal"], death["reason"]) == ("host-oom", 137, 9, "OOMKilled")
    assert (death["pod"], death["node"], death["runner_log"]) == (name, "node-1", LAST_WORDS)
    (line,) = [each for each in it.lines("runner pod terminated") if each["pod"] == name]
    shown = {key: line[key] for key in ("exitCode", "signal", "reason", "cause", "runner", "org")}
    assert shown == {
        "exitCode": 137,
        "signal": 9,
        "reason": "OOMKilled",
        "cause": "host-oom",
        "runner": name,
        "org": "acme",
    }
    (told,) = it.until(lambda: told_of(it, name))
    assert (told["cause"], told["job"]["id"], told["job"]["repository"]) == ("host-oom", job.id, "acme/api")
    it.until(lambda: not it.waits("post-mortem"))
    assert it.check_runs("api") == {}, "GitHub does not say yet that the job failed"

    it.github.control.finish("acme", job_id=job.id, lost=True)
    posted = it.until(lambda: it.hurry() and it.check_runs("api").get("Runner post-mortem"))
    assert (posted["head_sha"], posted["conclusion"]) == (job.head_sha, "neutral")
    assert posted["output"]["title"] == "This job's runner died: host-oom"
    explained = it.command("explain", "acme", name)
    assert "host-oom" in explained
    assert "resources.limits.memory" in explained
    assert len(told_of(it, name)) == 1


@ONE_FLEET
def test_a_clean_exit_is_told_and_bothers_no_developer(fleet):
    it = fleet
    job = a_job_runs(it, "web")
    it.github.control.finish("acme", job_id=job.id)
    it.ends(job.runner_name, exit_code=0, reason="Completed", log=CLEAN_WORDS)
    (told,) = it.until(lambda: [each for each in it.events("runner.died") if each["subject"] == job.runner_name])
    assert told["data"]["cause"] == "clean-exit"
    it.until(lambda: not it.waits("post-mortem"))
    assert it.asked_for(f"post-mortem-{told['id']}") == set(), "nobody looks again"
    assert it.check_runs("web") == {}


@ONE_FLEET
def test_a_lost_runner_of_arcs_is_replaced_by_deleting_its_object_and_nothing_else(fleet):
    it = fleet
    name, lost = next(iter(it.runners(ARC).items()))
    others = set(it.control.names("ephemeralrunners", NAMESPACE)) - {name}
    before, removals = len(it.asked(WORKER, *CHANGING)), it.removals()
    late = it.control.hangs(0.5, verbs=["delete"], resources=["ephemeralrunners"], times=1)
    it.github.control.lose("acme", ids=[lost])
    it.until(lambda: late.struck)
    it.control.set_labels("ephemeralrunners", NAMESPACE, name, touched="between-the-look-and-the-deletion")
    it.until(lambda: "deletionTimestamp" in it.control.object("ephemeralrunners", NAMESPACE, name)["metadata"])
    it.until(lambda: not it.health(lost)["replace"])

    changes = it.asked(WORKER, *CHANGING)[before:]
    assert changes == [("delete", "ephemeralrunners", name, code) for code in (409, 200)], "on what was looked at alone"
    assert "deletionTimestamp" not in it.control.object("pods", NAMESPACE, name)["metadata"], "that is for ARC to do"
    assert it.removals() == removals, "and the registration too"
    said = [each["said"] for each in it.health(lost)["evidence"]]
    assert "the cluster accepted the deletion of ARC's object" in said

    it.control.release("ephemeralrunners", NAMESPACE, name)  # what ARC does then
    assert name not in it.control.names("pods", NAMESPACE)
    assert set(it.control.names("ephemeralrunners", NAMESPACE)) == others


@ONE_FLEET
def test_a_lost_runner_of_a_controller_of_ones_own_goes_with_its_pod_and_its_account(fleet):
    it = fleet
    before = len(it.asked(WORKER, "delete"))
    name, lost = next(iter(it.runners(PODS).items()))
    it.github.control.lose("acme", ids=[lost])
    it.until(lambda: name not in it.control.names("serviceaccounts", NAMESPACE))
    it.until(lambda: name not in it.control.names("pods", NAMESPACE))
    assert it.asked(WORKER, "delete")[before:] == [
        ("delete", "pods", name, 200),
        ("delete", "serviceaccounts", name, 200),
    ]
    assert set(it.runners(PODS)) <= set(it.control.names("pods", NAMESPACE))
    account = it.github.control.account()
    assert account["wrongful_removals"] == account["wrongful_replacements"] == []


@ONE_FLEET
def test_a_pod_that_its_controller_has_claimed_is_left_until_the_claim_runs_out(fleet):
    it = fleet
    name, lost = next(iter(it.runners(PODS).items()))
    claim = f"/v1/orgs/acme/claims/{name}"
    assert it.web.put(claim, json={"ttl_seconds": 600}).status_code == 204
    it.github.control.lose("acme", ids=[lost])
    it.until(lambda: it.health(lost)["state"] == "invalidated")
    sweeps = len(it.lines("swept", "worker"))
    it.until(lambda: len(it.lines("swept", "worker")) >= sweeps + 2)
    assert it.health(lost)["replace"] is False
    assert [each for each in it.asked(WORKER, "delete") if each[2] == name] == []

    at = time.time()
    assert it.web.put(claim, json={"ttl_seconds": 1}).status_code == 204
    it.until(lambda: name not in it.control.names("pods", NAMESPACE))
    said = {each["said"]: each["at"] for each in it.until(lambda: replaced(it, lost))}
    assert datetime.fromisoformat(said["replacement accepted"]).timestamp() >= at + 1


def replaced(it, runner_id):
    """Its evidence, once its replacement is recorded."""
    evidence = it.health(runner_id)["evidence"]
    return evidence if "replacement accepted" in [each["said"] for each in evidence] else None


@ONE_FLEET
def test_the_reaper_looks_at_stamped_pods_and_spares_a_young_one(fleet):
    it = fleet
    it.control.pod(NAMESPACE, "stamped", labels={"ghapp.dev/owner": PODS}, service_account="stamped", age_seconds=60)
    tick = it.until(lambda: reaped(it))
    assert (tick.stamped, tick.reaped, tick.deferred) == (1, 0, 0)
    assert "stamped" in it.control.names("pods", NAMESPACE)


def reaped(it):
    """What a tick came to that saw a stamped pod; the clock asks for one a minute, and here there is one at once."""
    work.ask(it.desk, Work.REAP, it.installation, key=f"reap-{it.installation}", retry=False)
    tick = it.read(lambda redis: Leaks(redis).last(it.installation))
    return tick if tick.stamped and not tick.trouble else None


@ONE_FLEET
def test_an_object_that_is_stuck_for_two_minutes_is_freed_of_the_finalizer_that_waits_for_github(fleet):
    it = fleet
    name, lost = next(iter(it.runners(ARC).items()))
    it.github.control.lose("acme", ids=[lost])
    it.until(lambda: "deletionTimestamp" in it.control.object("ephemeralrunners", NAMESPACE, name)["metadata"])
    it.until(lambda: replaced(it, lost))

    def finalizers():
        return it.control.object("ephemeralrunners", NAMESPACE, name)["metadata"]["finalizers"]

    assert it.remediate(lost, seconds_from_now=60) == "waiting"
    assert finalizers() == [FINALIZER, REGISTRATION_FINALIZER]
    assert it.remediate(lost, seconds_from_now=TERMINATING_SECONDS + 1) == "freed"
    assert finalizers() == [FINALIZER], "ARC needs that one, to remove what belongs to it"
    assert [each[0] for each in it.asked(WORKER, "delete", "patch") if each[2] == name] == ["delete", "patch"]
    it.control.release("ephemeralrunners", NAMESPACE, name)
    assert it.remediate(lost, seconds_from_now=TERMINATING_SECONDS + 40) == "gone"


STORIES = (
    test_a_runner_that_is_killed_under_its_job_is_explained_to_everyone_who_asks,
    test_a_lost_runner_of_arcs_is_replaced_by_deleting_its_object_and_nothing_else,
    test_a_lost_runner_of_a_controller_of_ones_own_goes_with_its_pod_and_its_account,
    test_the_reaper_looks_at_stamped_pods_and_spares_a_young_one,
    test_an_object_that_is_stuck_for_two_minutes_is_freed_of_the_finalizer_that_waits_for_github,
)
"""Between them they use every right."""

UNUSED: set[tuple[str, str, str]] = set()
"""Rights that no story uses, by role, verb and resource: none. Whoever adds one says here why."""


@ONE_FLEET
def test_every_right_that_the_manifests_grant_is_used_and_no_other(fleet):
    """Alone, or on another machine than the others, it lives through them itself."""
    for story in STORIES:
        if story.__name__ not in fleet.lived:
            story(fleet)
    calls = fleet.control.calls()
    assert {each.user for each in calls} == {WATCH, WORKER}, "no other role has anything to ask"
    for role, user in ACCOUNTS.items():
        used = {right_of(each) for each in calls if each.user == user} - REVIEWS
        rights = {
            (verb, group, resource, namespace)
            for namespace in (NAMESPACE, HOME)
            for verb, group, resource, _ in granted("dev", role, namespace)
        }
        needed = {
            (each.verb, each.group, each.rbac_resource, namespace)
            for namespace, accesses in ((NAMESPACE, NEAR_RUNNERS), (HOME, AT_HOME))
            for each in accesses
            if each.role == role
        }
        spared = {each for each in rights if (role, each[0], each[2]) in UNUSED}
        assert used == rights - spared
        assert used == needed - spared
    named = {each.name for each in calls if each.resource == "leases" and each.verb != "create"}
    assert named == {WATCH_LEASE}, "the only one that the manifests name"


REVIEWS = {("create", "authorization.k8s.io", "selfsubjectaccessreviews", "")}
"""Everyone may ask what they may."""


def right_of(call):
    resource = f"{call.resource}/{call.subresource}" if call.subresource else call.resource
    return call.verb, call.group, resource, call.namespace


@pytest.mark.xdist_group("cluster-ends")
@pytest.mark.parametrize("weather", ["fair", "a-hanging-cluster", "no-redis"])
def test_asked_to_end_the_watch_does_within_ten_seconds_and_gives_the_lease_back(tmp_path, weather):
    with site(tmp_path, "watch", patience=HURRIED, jobs=1) as it:
        (watch,) = it.began
        it.stand(JOBS)
        it.until(lambda: it.leads(watch))
        it.sees()
        if weather == "a-hanging-cluster":
            trouble = it.control.hangs(3600)
            it.control.cut_watches("reset")
            it.until(lambda: trouble.struck)
        elif weather == "no-redis":
            it.redis.close()
            it.control.bookmark()
            it.until(lambda: it.lines("watch waits for Redis"))
        watch.process.terminate()
        assert watch.process.wait(10) == 0, watch.log
        if weather != "a-hanging-cluster":  # there nobody could be told; the lease runs out
            assert it.leader() == ""
            assert it.control.object("leases", HOME, WATCH_LEASE)["spec"]["leaseDurationSeconds"] < LEASE_SECONDS


@pytest.mark.xdist_group("cluster-ends")
def test_up_watches_the_cluster_where_one_is_configured_and_ends_the_watch_with_the_rest(tmp_path):
    with site(tmp_path, jobs=2) as it:
        names = it.stand(JOBS)
        it.control.user("up", [rule for each in users_of(objects("dev")).values() for rule in each])
        kubeconfig = it.api.kubeconfig(tmp_path / "kubeconfig", "up", HOME)
        more = {**it.environ, "KUBECONFIG": str(kubeconfig)}
        with running(it.github, tmp_path, free_port(), more=more) as up:
            (watch,) = up.processes("watch")
            it.until(lambda: f"-{watch}-" in it.leader())
            it.knows(2)
            it.sees()
            it.ends(names[0])
            assert wait_for(lambda: told_of(it, names[0])), up.log()
        assert it.leader() == "", "it was asked to end, and not killed"
