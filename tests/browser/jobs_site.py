"""Real roles in front of a sandbox where jobs wait, run, and lose their runners. Used by tests in a browser."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial

import httpx

from ghapp.queue.jobs import JobName, enqueue
from ghapp.sandbox.config import LEAST_PRIVILEGE, OrgConfig, PoolConfig, SandboxConfig
from ghapp.sandbox.fleet.jobs import SHUTDOWN_SIGNAL
from ghapp.sandbox.server import SandboxServer
from ghapp.store.connect import connect_sync
from tests.stories.test_up import free_port, wait_for
from tests.support.running import running

POOL = "linux-4vcpu"
POLICY = f"""
[sweep]
interval_seconds = 1
[evidence]
confirm_seconds = 1
startup_seconds = 1
[queue]
explain_after_seconds = 1
busy_after_seconds = 1
[[pools]]
org = "acme"
name = "{POOL}"
labels = ["{POOL}"]
replacer = "none"
"""


class JobsSite:
    """`base` is its address for this machine's own browser, `proxied` the headers of everyone else's."""

    def __init__(self, github, app):
        self.github, self.app, self.base = github, app, app.base
        self.proxied = {"x-forwarded-for": "192.0.2.1"}
        self.redis_url = f"unix://{app.state}/redis/redis.sock"

    def job(self, job_id):
        """The job as GitHub has it."""
        return self.github.world.orgs["acme"].fleet.jobs[job_id]

    def attempts(self, job_id):
        """The attempts of the job's run."""
        run, jobs = self.job(job_id).run_id, self.github.world.orgs["acme"].fleet.jobs
        return sorted(each.attempt for each in [*jobs.values()] if each.run_id == run)

    def check_runs(self, name, repository="api"):
        """The numbers of the check runs of that name."""
        posted = self.github.world.orgs["acme"].repositories[repository].check_runs
        return [number for number, each in [*posted.items()] if each["name"] == name]

    def knows(self, job_id, text):
        """Whether the job's page shows a text."""
        page = httpx.get(f"{self.base}/orgs/acme/jobs/{job_id}")
        return page.status_code == 200 and text in page.text

    def queued(self, labels=(POOL,), repository="api", count=1):
        """Jobs that wait, and that ghapp knows."""
        ids = self.github.control.queue("acme", labels=list(labels), repository=repository, count=count)
        assert wait_for(lambda: self.knows(ids[-1], "queued"), 30), self.app.log()
        return ids

    def runs(self, repository="api"):
        """A job that runs, and that ghapp knows."""
        (job_id,) = self.github.control.queue("acme", labels=[POOL], repository=repository)
        assert wait_for(lambda: self.job(job_id).status == "in_progress", 30)
        assert wait_for(lambda: self.knows(job_id, "running"), 30), self.app.log()
        return job_id

    def died(self, repository="api"):
        """A job whose runner was stopped before a step of the job began; its death is on record."""
        job_id = self.runs(repository)
        self.github.control.die("acme", job_id=job_id)
        self.github.control.abandon("acme", job_id=job_id, note=SHUTDOWN_SIGNAL, own_steps=False, step="cancelled")
        assert wait_for(lambda: self.knows(job_id, "failure"), 30), self.app.log()
        with connect_sync(self.redis_url) as redis:  # the delivery has it examined 90 seconds later
            enqueue(redis, JobName.JOB_DEATH, self.github.installation_id("acme"), job_id)
        name = self.job(job_id).runner_name
        assert wait_for(partial(self._shows_death, name), 30), self.app.log()
        return job_id, name

    def _shows_death(self, name):
        return name in httpx.get(f"{self.base}/orgs/acme/deaths").text


@contextmanager
def jobs_site(folder):
    """Starts them; the pool has six runners, and the App may re-run jobs."""
    policy = folder / "ghapp.toml"
    policy.write_text(POLICY)
    orgs = tuple(OrgConfig(login=login, pools=(PoolConfig(name=POOL, size=6),)) for login in ("acme", "globex"))
    permissions = LEAST_PRIVILEGE | {"actions": "write"}
    config = SandboxConfig(orgs=orgs, quiet=True, permissions=permissions)
    with SandboxServer(config) as github:
        key = folder / "app.pem"
        key.write_text(github.private_key_pem)
        key.chmod(0o600)
        more = {
            "GHAPP_CONFIG": str(policy),
            "GHAPP_APP_ID": str(github.app_id),
            "GHAPP_PRIVATE_KEY_FILE": str(key),
            "GHAPP_WEBHOOK_SECRET": github.webhook_secret,
            "GHAPP_CLIENT_ID": github.client_id,
            "GHAPP_CLIENT_SECRET": github.app.client_secret,
        }
        with running(github, folder, free_port(), more=more) as app:
            github.control.webhook(url=f"{app.base}/webhook")
            assert wait_for(lambda: "All 6 runners" in httpx.get(f"{app.base}/orgs/acme").text, 60), app.log()
            yield JobsSite(github, app)
