"""Controls jobs, branches and check runs."""

from __future__ import annotations

from collections.abc import Sequence

from ghapp.sandbox.control.controls import Controls, NoSuchThingError, exposed, known
from ghapp.sandbox.fleet.jobs import LOST_COMMUNICATION, SHUTDOWN_SIGNAL
from ghapp.sandbox.webhook_events import check_suite_requested


class WorkControls(Controls):
    """Controls of queued and completed jobs, pushes and pressed buttons."""

    @exposed
    def queue(self, org: str, *, labels: Sequence[str], repository: str | None = None, count: int = 1) -> list[int]:
        """Queues jobs with these labels; returns their ids."""
        place = self._org(org)
        name = next(iter(place.repositories)) if repository is None else repository
        source = known(place.repositories, name)
        return [place.fleet.submit(source, tuple(labels), self.world.now()).id for _ in range(count)]

    @exposed
    def finish(self, org: str, *, job_id: int, conclusion: str = "success", lost: bool = False) -> None:
        """Completes a running job now; `lost`: it fails as if its runner lost communication."""
        fleet = self._org(org).fleet
        job = known(fleet.jobs, job_id)
        if lost:
            conclusion = "failure"
            job.fail_without_runner()
        fleet.finish(job, self.world.now(), conclusion)

    @exposed
    def die(self, org: str, *, job_id: int) -> None:
        """The runner of a running job dies: the job goes on, for GitHub, until `abandon` ends it."""
        known(self._org(org).fleet.jobs, job_id).abandoned = True

    @exposed
    def abandon(
        self,
        org: str,
        *,
        job_id: int,
        note: str = LOST_COMMUNICATION,
        log: str | None = None,
        own_steps: bool = True,
        step: str = "open",
        conclusion: str = "failure",
    ) -> None:
        """GitHub ends a running job whose runner died.

        `note` is the annotation, `log` the raw log, `own_steps` whether a step of the job's own had begun, `step` how
        its last step ended: `open`, `failure`, `cancelled`. The runner itself stays as it is: see `lose` and `offline`.
        """
        fleet = self._org(org).fleet
        job = known(fleet.jobs, job_id)
        job.own_steps, job.left_open, job.log = own_steps, step == "open", log
        job.step_conclusion = "" if job.left_open else step
        job.note(note)
        fleet.abandon(job, self.world.now(), conclusion)

    @exposed
    def stop_runner(self, org: str, *, pool: str) -> int:
        """The runner of some running job of a pool is stopped by SIGTERM before a step of the job's own began.

        Answers the job's id, or 0 where no job runs.
        """
        fleet = self._org(org).fleet
        for runner in fleet.roster.registered.values():
            if runner.pool == pool and runner.job is not None:
                job = runner.job
                self.abandon(org, job_id=job.id, note=SHUTDOWN_SIGNAL, own_steps=False, step="cancelled")
                return job.id
        return 0

    @exposed
    def head(self, org: str, *, repository: str, sha: str = "") -> str:
        """Moves the default branch, to a random commit unless one is given; sends check_suite.requested."""
        place = self._org(org)
        source = known(place.repositories, repository)
        source.push(self.world.now(), sha)
        for installation in self._installations(place):
            app = self.world.documents.app(installation.app)
            body = check_suite_requested(source, app, self.world.url, self.world.stated(self.world.now()))
            self.world.webhook_events.event(place, "check_suite", body, repository=source, app=installation.app)
        return source.head_sha

    @exposed
    def topics(self, org: str, *, repository: str, topics: Sequence[str]) -> None:
        """Sets the topics of a repository."""
        known(self._org(org).repositories, repository).topics = tuple(topics)

    @exposed
    def click(self, org: str, *, check_run_id: int, identifier: str | None = None, by: str | None = None) -> None:
        """Presses a check run's button or, without an identifier, re-requests it; as that person or as the owner."""
        place = self._org(org)
        for repository in place.repositories.values():
            if check_run_id in repository.check_runs:
                self.world.press_button(place, repository, check_run_id, identifier, by)
                return
        raise NoSuchThingError(f"no check run {check_run_id} in {org}")
