"""Addresses of the pages, for check runs, notifications and commands. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote, urlencode

from ghapp.installations.scope_paths import path_segment


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
    def home(self) -> str | None:
        """The organizations."""
        return None if not self.base else f"{self.base.rstrip('/')}/"

    @property
    def incidents(self) -> str | None:
        """The incidents of a month."""
        return self._page("incidents")

    @property
    def jobs(self) -> str | None:
        """Queued jobs with their reasons, and running ones."""
        return self._page("jobs")

    @property
    def versions(self) -> str | None:
        """The versions of the runner."""
        return self._page("versions")

    @property
    def gate(self) -> str | None:
        """The gates of the blue/green pools."""
        return self._page("gate")

    @property
    def github(self) -> str | None:
        """The sweeps, and what prevents them."""
        return self._page("github")

    def below(self, path: str) -> str | None:
        """A page by its path and query below the organization's own, as headlines have it; the overview if empty.

        A path that begins with `#` is a part of the overview.
        """
        overview = self.overview
        if overview is None or not path:
            return overview
        return f"{overview}{path}" if path.startswith("#") else f"{overview}/{path}"

    def selected(self, page: str, **filters: str | None) -> str | None:
        """A list by its path below the organization's own, with the filters that are not empty."""
        query = urlencode({name: value for name, value in filters.items() if value})
        return self.below(f"{page}?{query}" if query else page)

    def runner(self, runner_id: int) -> str | None:
        """One runner."""
        return self._page("runners", str(runner_id))

    def job(self, job_id: int) -> str | None:
        """One job."""
        return self._page("jobs", str(job_id))

    def death(self, runner_name: str, identifier: str = "") -> str | None:
        """The death of this identifier, as the store has it; without one the latest death of a runner of that name."""
        page = self._page("deaths", runner_name)
        return f"{page}?{urlencode({'end': identifier})}" if page is not None and identifier else page

    def _page(self, *parts: str) -> str | None:
        if not self.base:
            return None
        segments = (path_segment(self.org), *(quote(each, safe="") for each in parts))
        return "/".join([self.base.rstrip("/"), "orgs", *segments])
