"""The commands' reads and changes on the stores of Redis."""

from __future__ import annotations

from typing import Any

from ghapp.cli import remediation_commands
from ghapp.cli.backend import FleetDocuments, JobReference, ShardGate
from ghapp.cli.context import chosen
from ghapp.cli.fleet_queries import fleet_documents, runner_document
from ghapp.cli.gate_query import GateQuery, blue_green
from ghapp.cli.job_queries import job_documents, jobs_referred_to
from ghapp.deaths.cause import Cause
from ghapp.deaths.death import Death, chooser
from ghapp.report.documents import death_document, timestamp
from ghapp.settings import Settings
from ghapp.store.stores import Stores
from ghapp.workflow_jobs.job import JobSearch, PullReference


class LocalBackend:
    """Reads and changes the stores; see `ghapp.cli.backend.Backend`."""

    def __init__(self, settings: Settings, stores: Stores) -> None:
        self._settings, self._stores = settings, stores
        self.page_url = settings.public_url

    async def fleet(self, org: str | None) -> FleetDocuments:
        """Returns the runners, and what is known beside them."""
        return await fleet_documents(self._settings, self._stores, org)

    async def orgs(self) -> list[str]:
        """Returns the organizations where the App is installed."""
        return [each.org for each in await self._stores.installations.all()]

    async def pools(self, org: str | None) -> set[str]:
        """Returns the names of the pools."""
        found: set[str] = set()
        for installation in await chosen(self._stores.installations, org):
            found |= await remediation_commands.known_pools(self._settings, self._stores, installation)
        return found

    async def runner_names(self, org: str | None) -> list[str]:
        """Returns the names of the runners as last known."""
        chosen_installations = await chosen(self._stores.installations, org)
        known = [await self._stores.runners.all(each.id) for each in chosen_installations]
        return [evidence.name for runners in known for evidence in runners.values()]

    async def runner(self, org: str, name_or_id: str) -> dict[str, Any]:
        """Returns the health document of a runner with `death` and `phantoms`."""
        return await runner_document(self._settings, self._stores, org, name_or_id)

    async def jobs(
        self, org: str | None, state: str | None, pool: str | None, search: JobSearch, pull: PullReference | None
    ) -> list[Any]:
        """Returns jobs, each with its `org`."""
        return await job_documents(self._settings, self._stores, org, state, pool, search, pull)

    async def jobs_referred_to(self, org: str, reference: JobReference) -> list[Any]:
        """Returns the document of a job, or of each known job of a run."""
        return await jobs_referred_to(self._settings, self._stores, org, reference)

    async def deaths(self, org: str | None, pool: str | None, cause: str | None, limit: int) -> list[Any]:
        """Returns the latest deaths, each with its `org`."""
        is_chosen = chooser(pool, cause)

        def is_wanted(death: Death) -> bool:
            return is_chosen(death) and (cause is not None or death.cause is not Cause.CLEAN_EXIT)

        found: list[Any] = []
        for installation in await chosen(self._stores.installations, org):
            latest, _ = await self._stores.deaths.page(installation.id, is_wanted, limit)
            found += [(each.at, {"org": installation.org, **death_document(each)}) for each in latest]
        found.sort(key=lambda each: each[0], reverse=True)
        return [document for _, document in found[:limit]]

    async def dead_letters(self) -> list[dict[str, Any]]:
        """Returns the deliveries that were given up, oldest first."""
        return [{**each._asdict(), "at": timestamp(each.at)} for each in await self._stores.inbox.dead()]

    async def pause(self, org: str, pool: str | None, why: str | None, seconds: float | None) -> list[str]:
        """Pauses remediation."""
        return await remediation_commands.pause(self._settings, self._stores, org, pool, why, seconds)

    async def resume(self, org: str, pool: str | None) -> list[str]:
        """Clears pauses and restarts stopped fuses."""
        return await remediation_commands.resume(self._settings, self._stores, org, pool)

    async def gate(self, org: str, pool: str) -> ShardGate:
        """Returns the gate of a pool that has shards."""
        return GateQuery(self._settings, self._stores, org, blue_green(self._settings, org, pool))
