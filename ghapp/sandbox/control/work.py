"""What happens to jobs, branches and check runs."""

from __future__ import annotations

from collections.abc import Sequence

from ghapp.sandbox.control.levers import Levers, NoSuchThingError, known, lever
from ghapp.sandbox.documents.payloads import check_run_event, check_suite_requested
from ghapp.sandbox.documents.work import check_run_document

LOST_COMMUNICATION = "The self-hosted runner lost communication with the server."


class WorkLevers(Levers):
    """Jobs queued and ended, pushes, pressed buttons."""

    @lever
    def queue(self, org: str, *, labels: Sequence[str], repository: str | None = None, count: int = 1) -> list[int]:
        """Jobs are queued that ask for these labels; answers their ids."""
        place = self._org(org)
        name = next(iter(place.repositories)) if repository is None else repository
        source = known(place.repositories, name)
        return [place.fleet.submit(source, tuple(labels), self.world.now()).id for _ in range(count)]

    @lever
    def finish(self, org: str, *, job_id: int, conclusion: str = "success", lost: bool = False) -> None:
        """A running job ends now; `lost` makes it fail as one does whose runner lost communication."""
        fleet = self._org(org).fleet
        job = known(fleet.jobs, job_id)
        if lost:
            conclusion = "failure"
            note = {"path": ".github", "start_line": 1, "end_line": 1, "annotation_level": "failure"}
            job.annotations.append(note | {"title": "", "message": LOST_COMMUNICATION})
        fleet.finish(job, self.world.now(), conclusion)

    @lever
    def head(self, org: str, *, repository: str, sha: str = "") -> str:
        """The default branch moves on, to a made-up commit unless one is named; sends check_suite.requested."""
        place = self._org(org)
        source = known(place.repositories, repository)
        source.push(self.world.now(), sha)
        for installation in self._installations(place):
            app = self.world.pen.app(installation.app)
            body = check_suite_requested(source, app, self.world.url, self.world.now())
            self.world.announce(place, "check_suite", body, repository=source, app=installation.app)
        return source.head_sha

    @lever
    def click(self, org: str, *, check_run_id: int, identifier: str | None = None) -> None:
        """Somebody presses a check run's button, or, without an identifier, asks for the check run again."""
        place = self._org(org)
        for repository in place.repositories.values():
            posted = repository.check_runs.get(check_run_id)
            if posted is None:
                continue
            app = self.world.registry.apps[posted["app_id"]]
            document = check_run_document(check_run_id, posted, repository, self.world.pen.app(app), self.world.url)
            body = check_run_event(document, repository, self.world.url, self.world.now(), identifier=identifier)
            self.world.announce(place, "check_run", body, repository=repository, app=app)
            return
        raise NoSuchThingError(f"no check run {check_run_id} in {org}")
