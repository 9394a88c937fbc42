"""A cluster whose controllers forget pods, for stories: the API server is the strict stand-in, its clock the story's."""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from unittest import mock

from ghapp.cluster.api import Cluster
from ghapp.cluster.connection import open_cluster
from ghapp.runners import observations
from ghapp.sandbox import deliveries
from jobs.leaks.reap import reap_installation
from jobs.runners.sweep import sweep_installation
from tests.sandbox.receivers import Received
from tests.stories.conftest import POOL, Story
from tests.support.cluster import SteeredCluster

NAMESPACE = "runners"
LABEL = {"ghapp.dev/owner": "linux-4vcpu"}
CLAIM_SECONDS = 150.0
BYSTANDERS = 4


NO_FUSE = "[fuse]\nfloor = 10_000"
"""For stories of the other guards: however many leak, no fuse holds them back."""


def config(more="", fuse=NO_FUSE):
    return f"""
        {more}
        {fuse}
        [[pools]]
        org = "acme"
        name = "in-cluster"
        labels = ["{POOL}"]
        namespace = "{NAMESPACE}"
        """


@dataclass
class Leaking:
    """A story, and the cluster its runners are in."""

    app: Story
    api: SteeredCluster
    cluster: Cluster
    bystanders: frozenset[str] = frozenset()
    """Runners without a pod here, registered and offline: GitHub's list is never empty."""

    @property
    def runners(self):
        """GitHub's runners with a pod here, by name, and those without a registration whose containers still run."""
        roster = self.app.sandbox.world.orgs["acme"].fleet.roster
        known = {**roster.zombies, **roster.registered}.values()
        return {each.name: each for each in known if each.name not in self.bystanders}

    @contextmanager
    def at_once(self):
        """Many control calls of the cluster; their effects are processed once, at the end."""
        with self.api.cluster.lock:
            with mock.patch.object(self.api.cluster, "settle"):
                yield
            self.api.cluster.settle()

    def make_pod(self, name, namespace=NAMESPACE, **changes):
        """A stamped pod with its own ServiceAccount, ten minutes old by default."""
        self.api.control.pod(namespace, name, **{"labels": LABEL, "service_account": name, **changes})

    async def hang(self, *names):
        """Makes runners hang: their one job is over and their registration is deleted, while their containers run on:
        leaks.

        Without names, all. GitHub has listed each of them before, so that their names are known.
        """
        runners, app = self.runners, self.app
        await sweep_installation(app.context, app.installation)
        chosen = [runners[name].id for name in names or runners]
        app.sandbox.control.lose("acme", ids=chosen)
        now = app.clock()
        over = partial(self._job_over, at=now)
        await app.context.runners.revise(app.installation, dict.fromkeys(chosen, over))
        await sweep_installation(app.context, app.installation)

    @staticmethod
    def _job_over(evidence, at):
        """A delivery reports that it had a job, a moment ago."""
        return observations.job_ended(evidence, 900_000 + evidence.id, at, at - 1)

    def come_back(self, *names):
        """GitHub shows their registrations again, offline."""
        runners = self.runners
        self.app.sandbox.control.restore("acme", ids=[runners[name].id for name in names])
        self.go_offline(*names)

    def go_offline(self, *names, alive=True):
        """Their connections drop, and GitHub shows them offline; without names, of all that run no job."""
        runners = self.runners
        chosen = [runners[name].id for name in names or runners if names or runners[name].job is None]
        self.app.sandbox.control.take_offline("acme", ids=chosen, alive=alive)

    def hang_after_its_job(self, name):
        """Its job is over, and its process stays connected: GitHub shows it online, and gives it no other job."""
        runner = self.runners[name]
        self.app.sandbox.control.finish("acme", job_id=runner.job.id)
        self._show_online(runner)

    def end_container(self, name, *, noticed=False):
        """It was killed, and asks for no job any more; until GitHub has `noticed`, it shows the runner online."""
        self.api.control.container_ends(NAMESPACE, name, exit_code=137)
        self.go_offline(name, alive=False)
        if not noticed:
            self._show_online(self.runners[name])

    def end_containers(self, *names, namespace=NAMESPACE, container="runner"):
        """They have ended, and are not started again."""
        for name in names:
            self.api.control.container_ends(namespace, name, container=container, exit_code=137)

    def _show_online(self, runner):
        roster = self.app.sandbox.world.orgs["acme"].fleet.roster

        def show():
            roster.registered[runner.id] = runner
            runner.online = True
            roster.touch()

        self.app.sandbox.control.in_world(show)

    def drop_pod(self, name):
        """What a controller does that forgets nothing."""
        self.api.control.vanish(NAMESPACE, name)
        self.api.control.delete("serviceaccounts", NAMESPACE, name)

    def listen_without_http(self, monkeypatch):
        """From now on the sandbox delivers, signed as ever, into the hook's hands: stories of thousands of deliveries."""

        async def handed_over(_client, attempt, body):
            headers = {name.lower(): value for name, value in attempt.request_headers.items()}
            self.app.hook.received.append(Received(headers, body))
            return replace(attempt, status="OK", status_code=202, response_headers={}, response_body="")

        monkeypatch.setattr(deliveries, "_post", handed_over)
        self.app.listen()

    async def receive_all(self):
        """Waits until all of GitHub's deliveries have arrived and taken effect."""
        await self.app.receive_all()
        assert self.app.account()["deliveries"]["failed"] == 0

    async def claim(self, pod, runner_name=None, seconds=CLAIM_SECONDS):
        ends = self.app.clock() + seconds
        await self.app.context.pod_claims.claim(self.app.installation, pod, runner_name or pod, None, ends)

    async def release(self, pod):
        await self.app.context.pod_claims.release(self.app.installation, pod)

    async def reap(self, context=None):
        return await reap_installation(context or self.app.context, self.app.installation)

    async def tick(self):
        """What is done each minute, in the order in which the clock asks for it."""
        await sweep_installation(self.app.context, self.app.installation)
        return await self.reap()

    async def minutes(self, count, every=1):
        """So many more, with a tick in each, or in each `every`th; what the ticks came to."""
        ticks = []
        for _ in range(0, count, every):
            await self.app.pass_(60 * every)
            ticks.append(await self.tick())
        return ticks

    def pods(self):
        """Names of those that are there, and not being deleted."""
        there = self.api.control.objects("pods", NAMESPACE)
        return {each["metadata"]["name"] for each in there if "deletionTimestamp" not in each["metadata"]}

    def accounts(self):
        return set(self.api.control.names("serviceaccounts", NAMESPACE)) - {"default"}

    def deletions(self, resource="pods"):
        """Names in accepted DELETE calls; controls make no such calls."""
        calls = self.api.control.calls()
        return [each.name for each in calls if (each.verb, each.resource, each.code) == ("delete", resource, 200)]

    async def published(self):
        return [data["pod"] for data in await self.app.sent_events("pod.orphaned")]

    async def counted(self, outcome):
        counted = await self.app.context.counters.all()
        return counted.get(f'ghapp_orphans_reaped_total{{org="acme",outcome="{outcome}"}}', 0)


@asynccontextmanager
async def leaking(story, tmp_path, *, runners=4, more="", pools="", fuse=NO_FUSE):
    async with story(runners=runners, config=config(more, fuse) + pools) as app:
        with SteeredCluster(clock=app.clock) as api:
            api.control.namespace(NAMESPACE)
            api.control.kubelet_deletes_after(30)
            environ = {"KUBECONFIG": str(api.kubeconfig(tmp_path / "kubeconfig"))}
            async with open_cluster(environ) as cluster:

                async def opened():
                    return cluster

                app.context = replace(app.context, cluster=opened)
                fleet = app.sandbox.world.orgs["acme"].fleet
                others = app.sandbox.control.in_world(lambda: [fleet.register(POOL).name for _ in range(BYSTANDERS)])
                yield Leaking(app, api, cluster, frozenset(others))
