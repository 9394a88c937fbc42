"""Real roles in front of a sandbox where jobs wait, run, and lose their runners. Used by tests in a browser."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial

from ghapp.queue.jobs import JobName, enqueue
from ghapp.sandbox.config import LEAST_PRIVILEGE, OrgConfig, PoolConfig
from ghapp.sandbox.fleet.jobs import SHUTDOWN_SIGNAL
from ghapp.store.connect import connect_sync
from tests.browser.site import POOL, Site, site
from tests.support.waiting import wait_for

POLICY = f"""
[queue]
explain_after_seconds = 1
busy_after_seconds = 1
[[pools]]
org = "acme"
name = "{POOL}"
labels = ["{POOL}"]
replacer = "none"
"""


class JobsSite(Site):
    """With jobs."""

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
        page = self.app.page(f"/orgs/acme/jobs/{job_id}")
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
        return name in self.app.page("/orgs/acme/deaths").text


@contextmanager
def jobs_site(folder):
    """Runs it; the pool has six runners, and the App may re-run jobs."""
    orgs = tuple(OrgConfig(login=login, pools=(PoolConfig(name=POOL, size=6),)) for login in ("acme", "globex"))
    permissions = LEAST_PRIVILEGE | {"actions": "write"}
    with site(folder, orgs, POLICY, JobsSite, permissions) as shown:
        shown.github.control.webhook(url=f"{shown.base}/webhook")
        yield shown
