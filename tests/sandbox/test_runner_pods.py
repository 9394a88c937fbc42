"""Runners as pods of the simulated cluster: created and deleted with the fleet, killed, forgotten and lost."""

from __future__ import annotations

from collections import Counter

import pytest

from ghapp.sandbox import OrgConfig, PoolConfig, SandboxConfig, SandboxServer, pools_of
from ghapp.sandbox.config import with_pods
from ghapp.sandbox.control.controls import NoSuchThingError
from ghapp.sandbox.control.runners import NOTICED_AFTER_SECONDS
from ghapp.sandbox.fleet_pods import CLEANUP_SECONDS, JOB_DONE_LOG, NAMESPACE
from tests.support.cluster import SteeredCluster

POOLS = (
    PoolConfig(name="vms", size=2),
    PoolConfig(name="arc", size=3, pods="arc"),
    PoolConfig(name="own", size=3, pods="own"),
)


class Site:
    """A sandbox with a cluster, both by the clock of the sandbox."""

    def __init__(self, github, cluster):
        self.github, self.cluster = github, cluster

    @property
    def fleet(self):
        return self.github.world.orgs["acme"].fleet

    def follow(self, seconds=0.0):
        self.github.control.step(seconds=seconds)
        self.github.control.in_world(self.github.pods.follow)

    def runners(self, pool):
        return {each.name: each for each in self.fleet.roster.registered.values() if each.pool == pool}

    def names(self, kind="pods"):
        return set(self.cluster.control.names(kind, NAMESPACE)) - {"default"}

    def pod(self, name):
        return self.cluster.control.object("pods", NAMESPACE, name)

    def state(self, name, container="runner"):
        statuses = self.pod(name)["status"]["containerStatuses"]
        (found,) = [each["state"] for each in statuses if each["name"] == container]
        return found

    def starts_a_job(self, pool, repository=None):
        (job_id,) = self.github.control.queue("acme", labels=[pool], repository=repository)
        self.follow()
        return self.fleet.jobs[job_id]


@pytest.fixture
def site():
    config = SandboxConfig(orgs=(OrgConfig(pools=POOLS),), quiet=True, ticking=False)
    with SteeredCluster() as cluster, SandboxServer(config, cluster) as github:
        cluster.cluster.clock = github.world.now
        yield Site(github, cluster)


def test_pools_of_pods_take_their_runners_from_the_first_pool():
    pools = with_pods(pools_of(300))
    assert sum(pool.size for pool in pools) == 300
    assert [(pool.name, pool.pods) for pool in pools[3:]] == [("k8s-arc", "arc"), ("k8s-pods", "own")]


def test_each_runner_of_such_a_pool_has_a_pod_and_what_owns_it(site):
    arc, own = site.runners("arc"), site.runners("own")
    assert site.names() == {*arc, *own}
    assert site.names("ephemeralrunners") == set(arc)
    assert site.names("serviceaccounts") == set(own)
    for name, runner in arc.items():
        found = site.cluster.control.object("ephemeralrunners", NAMESPACE, name)
        assert (found["status"]["runnerId"], found["status"]["runnerName"]) == (runner.id, name)
        assert [each["name"] for each in site.pod(name)["metadata"]["ownerReferences"]] == [name]
    assert {site.pod(name)["metadata"]["labels"]["ghapp.dev/owner"] for name in own} == {"own"}


def test_arcs_object_names_the_job_of_its_runner(site):
    job = site.starts_a_job("arc")
    status = site.cluster.control.object("ephemeralrunners", NAMESPACE, job.runner_name)["status"]
    assert (status["workflowRunId"], status["jobRepositoryName"]) == (job.run_id, "acme/api")


@pytest.mark.parametrize("pool", ["arc", "own"])
def test_a_runner_whose_job_is_over_ends_and_its_controller_deletes_all_of_it(site, pool):
    job = site.starts_a_job(pool)
    site.github.control.finish("acme", job_id=job.id)
    site.follow()
    assert site.state(job.runner_name)["terminated"]["exitCode"] == 0
    site.follow(CLEANUP_SECONDS - 0.5)
    assert job.runner_name in site.names()
    site.follow(0.5)
    for kind in ("pods", "ephemeralrunners", "serviceaccounts"):
        assert job.runner_name not in site.names(kind)
    site.follow(60)
    assert len(site.runners(pool)) == 3
    assert site.names() == {*site.runners("arc"), *site.runners("own")}, "its successor has a pod"


@pytest.mark.parametrize(("pool", "kind"), [("arc", "ephemeralrunners"), ("own", "pods")])
def test_a_runner_without_a_registration_is_replaced_when_its_object_is_deleted(site, pool, kind):
    (lost,) = site.github.control.lose("acme", count=1, pool=pool)
    name = site.fleet.roster.find(lost).name
    site.follow()
    assert name in site.names(), "its process runs on"
    site.cluster.control.delete(kind, NAMESPACE, name)
    site.follow()
    for left in ("pods", "ephemeralrunners", "serviceaccounts"):
        assert name not in site.names(left)
    site.follow(60)
    assert len(site.runners(pool)) == 3
    assert {each.replaces for each in site.runners(pool).values()} == {None, lost}


def test_out_of_memory_waits_for_a_job_of_a_repository_that_members_read(site):
    site.starts_a_job("arc", "infra")
    assert site.github.control.out_of_memory("acme") == []
    read = site.starts_a_job("arc", "api")
    assert [site.github.control.out_of_memory("acme") for _ in range(2)] == [[read.id, read.runner_name], []]


@pytest.mark.parametrize("pool", ["arc", "own"])
def test_out_of_memory_kills_a_runner_with_a_job_and_github_ends_the_job_later(site, pool):
    assert site.github.control.out_of_memory("acme") == [], "no runner has a job"
    job = site.starts_a_job(pool)
    assert site.github.control.out_of_memory("acme") == [job.id, job.runner_name]
    ended = site.state(job.runner_name)["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "OOMKilled")
    site.follow(NOTICED_AFTER_SECONDS - 0.5)
    assert job.status == "in_progress"
    site.follow(0.5)
    assert (job.status, job.conclusion) == ("completed", "failure")
    site.follow()
    site.follow(60)
    assert job.runner_name not in site.names()
    assert len(site.runners(pool)) == 3


def test_a_forgotten_pod_stays_with_its_sidecar_and_another_client_may_delete_it(site):
    jobs = [site.starts_a_job("own") for _ in range(2)]
    assert site.github.control.forget_pods("acme", count=3) == [], "only two runners have a job"
    names = site.github.control.forget_pods("acme", count=2)
    assert Counter(names) == Counter(job.runner_name for job in jobs)
    site.follow()
    site.follow(600)
    assert {*names} < site.names() & site.names("serviceaccounts")
    assert "terminated" in site.state(names[0])
    assert "running" in site.state(names[0], "dind")
    site.cluster.control.delete("pods", NAMESPACE, names[0])
    site.follow(2)
    site.cluster.cluster.settle()
    assert names[0] not in site.names()
    assert names[0] in site.names("serviceaccounts"), "the reaper deletes it"
    assert len(site.runners("own")) == 3


def test_a_lost_pod_leaves_its_object_and_an_offline_registration(site):
    name = site.github.control.lose_pod("acme")
    site.follow(600)
    assert name not in site.names()
    assert name in site.names("ephemeralrunners")
    assert not site.runners("arc")[name].online


def test_its_log_shows_that_the_job_ended_well(site):
    job = site.starts_a_job("arc")
    site.github.control.finish("acme", job_id=job.id)
    site.follow()
    uid = site.pod(job.runner_name)["metadata"]["uid"]
    assert [each.text for each in site.cluster.cluster.logs._now[uid]["runner"]] == list(JOB_DONE_LOG)


@pytest.mark.parametrize("control", ["out_of_memory", "forget_pods", "lose_pod"])
def test_without_a_cluster_these_controls_do_not_exist(control):
    with SandboxServer(SandboxConfig(quiet=True, ticking=False)) as github, pytest.raises(NoSuchThingError):
        getattr(github.control, control)("acme")
