"""Addresses of the pages, for check runs, notifications and commands. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class PageLinks:
    """The pages of one organization. Each address is None if it is not known under which address people reach them.

    Attributes:
        base: `GHAPP_PUBLIC_URL`, the address of `/`; None if it is not set.
        org: the organization, by any of its names.
    """

    base: str | None
    org: str

    @property
    def overview(self) -> str | None:
        """The state of the organization."""
        return self._page()

    @property
    def incidents(self) -> str | None:
        """The incidents of a month."""
        return self._page("incidents")

    @property
    def jobs(self) -> str | None:
        """Queued jobs with their reasons, and running ones."""
        return self._page("jobs")

    @property
    def gate(self) -> str | None:
        """The gates of the blue/green pools."""
        return self._page("gate")

    @property
    def github(self) -> str | None:
        """The sweeps, and what prevents them."""
        return self._page("github")

    def runner(self, runner_id: int) -> str | None:
        """One runner."""
        return self._page("runners", str(runner_id))

    def death(self, runner_name: str) -> str | None:
        """The latest death of a runner of that name."""
        return self._page("deaths", runner_name)

    def _page(self, *parts: str) -> str | None:
        if not self.base:
            return None
        return "/".join([self.base.rstrip("/"), "orgs", *(quote(each, safe="") for each in (self.org, *parts))])
