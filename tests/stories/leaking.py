"""A cluster whose controllers forget pods, for stories: the API server is the strict stand-in, its clock the story's."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from ghapp.cluster.api import Cluster
from ghapp.cluster.connection import open_cluster
from ghapp.sandbox.cluster import ClusterServer
from jobs.reap import reap_installation
from jobs.sweep import sweep_installation
from tests.stories.conftest import POOL, Story

NAMESPACE = "runners"
LABEL = {"ghapp.dev/owner": "linux-4vcpu"}
CLAIM_SECONDS = 150.0


def config(more=""):
    return f"""
        {more}
        [[pools]]
        org = "acme"
        name = "in-cluster"
        labels = ["{POOL}"]
        namespace = "{NAMESPACE}"
        """


@dataclass
class Leaking:
    """A story, and the cluster its runners are in."""

    it: Story
    api: ClusterServer
    cluster: Cluster

    @property
    def runners(self):
        """GitHub's, by name."""
        return {each.name: each for each in self.it.sandbox.world.orgs["acme"].fleet.roster.registered.values()}

    def make_pod(self, name, namespace=NAMESPACE, **changes):
        """A stamped one, with a ServiceAccount of its own, ten minutes old unless it is said otherwise."""
        self.api.control.pod(namespace, name, **{"labels": LABEL, "service_account": name, **changes})

    def hang(self, *names):
        """Their processes are dead, and GitHub shows them offline; without names, of all that run no job."""
        runners = self.runners
        chosen = [runners[name].id for name in names or runners if names or runners[name].job is None]
        self.it.sandbox.control.take_offline("acme", ids=chosen, alive=False)

    def drop_pod(self, name):
        """What a controller does that forgets nothing."""
        self.api.control.vanish(NAMESPACE, name)
        self.api.control.delete("serviceaccounts", NAMESPACE, name)

    async def receive_all(self):
        """Whatever GitHub has to tell by now has arrived, and has taken effect."""
        it = self.it
        for _ in range(1000):
            sent = it.account()["deliveries"]
            assert sent["failed"] == 0
            if sent["waiting"] == 0 and sent["sent"] <= len(it.hook.received):
                return await it.receive(len(it.hook.received) - it.taken)
            await asyncio.sleep(0.01)
        raise AssertionError(sent)

    async def claim(self, pod, runner_name=None, seconds=CLAIM_SECONDS):
        ends = self.it.clock() + seconds
        await self.it.house.pod_claims.claim(self.it.installation, pod, runner_name or pod, None, ends)

    async def give_back(self, pod):
        await self.it.house.pod_claims.give_back(self.it.installation, pod)

    async def reap(self, house=None):
        return await reap_installation(house or self.it.house, self.it.installation)

    async def tick(self):
        """What is done each minute, in the order in which the clock asks for it."""
        await sweep_installation(self.it.house, self.it.installation)
        return await self.reap()

    async def minutes(self, count):
        """So many more; what the ticks came to."""
        ticks = []
        for _ in range(count):
            await self.it.pass_(60)
            ticks.append(await self.tick())
        return ticks

    def pods(self):
        """Names of those that are there, and not being deleted."""
        there = self.api.control.objects("pods", NAMESPACE)
        return {each["metadata"]["name"] for each in there if "deletionTimestamp" not in each["metadata"]}

    def accounts(self):
        return set(self.api.control.names("serviceaccounts", NAMESPACE)) - {"default"}

    def deletions(self, resource="pods"):
        """Names in accepted DELETE calls; levers make none."""
        calls = self.api.control.calls()
        return [each.name for each in calls if (each.verb, each.resource, each.code) == ("delete", resource, 200)]

    async def told(self):
        return [data["pod"] for data in await self.it.told("pod.orphaned")]

    async def counted(self, outcome):
        counted = await self.it.house.counters.all()
        return counted.get(f'ghapp_orphans_reaped_total{{org="acme",outcome="{outcome}"}}', 0)


@asynccontextmanager
async def leaking(story, tmp_path, *, runners=4, more="", pools=""):
    async with story(runners=runners, config=config(more) + pools) as it:
        with ClusterServer(clock=it.clock) as api:
            api.control.namespace(NAMESPACE)
            api.control.kubelet_deletes_after(30)
            environ = {"KUBECONFIG": str(api.kubeconfig(tmp_path / "kubeconfig"))}
            async with open_cluster(environ) as cluster:

                async def opened():
                    return cluster

                it.house = replace(it.house, cluster=opened)
                yield Leaking(it, api, cluster)
