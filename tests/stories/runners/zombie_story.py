"""A story with a simulated API server beside the simulated GitHub, both by the story's clock.

The watch is a look at the whole namespace, which `sees` stores as the watch's views do.
"""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager

from ghapp.pods.store import Pods
from ghapp.remediation.store import Fuses
from ghapp.runners.evidence import is_absent
from ghapp.runners.verdict import judge
from ghapp.sandbox.cluster.shapes import REGISTRATION_FINALIZER, AssignedJob
from ghapp.settings import Settings
from jobs.context import open_context
from jobs.pods.cluster_summary import summarize_cluster
from jobs.pods.remains import observe_remains
from jobs.remediation.job_lookup import look_up_jobs
from jobs.remediation.plan_remediation import plan_remediation
from jobs.runners.confirm import confirm_installation
from jobs.runners.sweep import sweep_installation
from tests.stories.conftest import POOL
from tests.support.cluster import SteeredCluster

NAMESPACE = "runners"
IN_CLUSTER = "in-cluster"
INTERVAL = 60

POLICY = """
[[pools]]
org = "acme"
name = "{name}"
labels = ["{label}"]
replacer = "{replacer}"
namespace = "{namespace}"
"""


class ZombieStory:
    """The state on both sides.

    Attributes:
        watches: True if the watch sees anything.
        confirmed_before: how many seconds ago the watch has confirmed its view; later events are in it, too.
        takes_404_for_failure: True for an ARC up to 0.14.2, which keeps its registration finalizer on a 404.
    """

    def __init__(self, app, api, replacer):
        self.app, self.api, self.replacer, self.watches, self.takes_404_for_failure = app, api, replacer, True, False
        self.confirmed_before = 0.0

    @property
    def control(self):
        return self.api.control

    @property
    def fleet(self):
        return self.app.sandbox.world.orgs["acme"].fleet

    async def installation(self):
        return await self.app.context.installations.one(self.app.installation)

    def stand(self, runner, job=None):
        """What a cluster holds for a runner: a day old, and running."""
        old = {"age_seconds": 86_400}
        if self.replacer == "arc":
            named = {"runner_id": runner.id, "scale_set": POOL, "job": job}
            owner = self.control.ephemeral_runner(NAMESPACE, runner.name, **named, **old)
            self.control.pod(NAMESPACE, runner.name, owner=owner, **old)
        else:
            self.control.pod(NAMESPACE, runner.name, service_account=runner.name, **old)

    def takes_a_job(self):
        """Some runner does, and where there is an object of ARC's, it names the workflow run; the runner, the job."""
        (job_id,) = self.app.sandbox.control.queue("acme", labels=[POOL], repository="api")
        job = self.fleet.jobs[job_id]
        if self.replacer == "arc":
            reported = AssignedJob("8f-a1", job.run_id, repository="acme/api")
            status = {
                "jobId": reported.id,
                "workflowRunId": reported.workflow_run_id,
                "jobRepositoryName": reported.repository,
            }
            self.control.set_status("ephemeralrunners", NAMESPACE, job.runner_name, **status)
        return self.fleet.roster.find(job.runner_id), job

    async def sees(self):
        """The watch's views are as of now."""
        cluster, store = await self.app.context.cluster(), Pods(self.app.context.redis)
        at = self.app.clock() - self.confirmed_before
        await store.replace_objects(NAMESPACE, (await cluster.ephemeral_runners(NAMESPACE)).items, at)
        await store.replace_pods(NAMESPACE, (await cluster.pods(NAMESPACE)).items, at)

    async def live(self, seconds=INTERVAL, *, github=False):
        """Intervals of a minute: the watch, a sweep, what the views show, the confirmation, the replacements.

        `github`: whether time passes there as well, so that jobs go on.
        """
        for _ in range(max(1, round(seconds / INTERVAL))):
            if github:
                await self.app.pass_(INTERVAL)
            else:
                self.app.clock.pass_(INTERVAL)
            await self._interval()

    async def _interval(self):
        context, installation = self.app.context, await self.installation()
        await sweep_installation(context, installation.id, act=False)
        if self.watches:
            await self.sees()
        absent = [each for each in (await context.runners.all(installation.id)).values() if is_absent(each)]
        await context.runners.revise(
            installation.id, await observe_remains(context, installation, absent, context.clock())
        )
        absent = (await context.runners.some(installation.id, [each.id for each in absent])).values()
        await look_up_jobs(context, installation, absent)
        await plan_remediation(context, installation)
        await self.side()
        await confirm_installation(context, installation.id)
        await self.app.work_off()
        self.arc_finishes_deletions()

    def arc_finishes_deletions(self):
        """What ARC does with its objects that are being deleted, and with their pods."""
        for each in self.control.objects("ephemeralrunners", NAMESPACE):
            meta = each["metadata"]
            is_stuck = self.takes_404_for_failure and REGISTRATION_FINALIZER in meta["finalizers"]
            if meta.get("deletionTimestamp") and not is_stuck:
                if meta["name"] in self.control.names("pods", NAMESPACE):
                    self.control.vanish(NAMESPACE, meta["name"])
                self.control.release("ephemeralrunners", NAMESPACE, meta["name"])

    async def evidence(self, runner):
        return (await self.app.context.runners.some(self.app.installation, [runner.id]))[runner.id]

    async def verdict(self, runner):
        survey = await self.app.context.runners.survey(self.app.installation)
        limits = self.app.settings.of("acme").evidence
        return judge(await self.evidence(runner), survey, self.app.clock(), limits)

    async def fuse(self):
        return (await Fuses(self.app.context.redis).all(self.app.installation)).get(IN_CLUSTER)

    async def side(self):
        """What is known of the cluster side, as the report has it."""
        return await summarize_cluster(self.app.context, await self.installation(), self.app.clock())

    def changes(self):
        """What was deleted or patched in the cluster by anybody who asked over HTTP: verb, resource, name."""
        calls = self.control.calls()
        return [(each.verb, each.resource, each.name) for each in calls if each.verb in ("delete", "patch")]

    def replaced(self, runner):
        """What `changes` holds when a runner, and nothing else, was replaced."""
        if self.replacer == "arc":
            return [("delete", "ephemeralrunners", runner.name)]
        return [("delete", "pods", runner.name), ("delete", "serviceaccounts", runner.name)]


@asynccontextmanager
async def zombie_story(story, tmp_path, replacer="arc", runners=12, config=""):
    """Opens it: a fleet of ephemeral runners, each with what stands for it in the cluster, and all is well."""
    policy = POLICY.format(name=IN_CLUSTER, label=POOL, replacer=replacer, namespace=NAMESPACE)
    async with AsyncExitStack() as stack:
        app = await stack.enter_async_context(story(runners=runners, config=config + policy))
        api = stack.enter_context(SteeredCluster(clock=app.clock))
        api.control.namespace(NAMESPACE)
        path = api.kubeconfig(tmp_path / "kubeconfig")
        app.settings = Settings.read(app.environ | {"KUBECONFIG": str(path)})
        app.context = await stack.enter_async_context(open_context(app.settings, app.clock))
        found = ZombieStory(app, api, replacer)
        for runner in found.fleet.roster.registered.values():
            found.stand(runner)
        await found.live(180)
        yield found
