"""A runner, from both sides: GitHub's registration and the process on its machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ghapp.sandbox.fleet.jobs import SandboxJob
from ghapp.sandbox.fleet.versions import NEWEST

DEFAULT_GROUP_ID = 1
DEFAULT_GROUP_NAME = "Default"


@dataclass(slots=True)
class GroupAccess:
    """The repositories that may use the one runner group.

    Attributes:
        visibility: `all`, or `selected`.
        repositories: names of the selected ones.
    """

    visibility: Literal["all", "selected"] = "all"
    repositories: tuple[str, ...] = ()

    def admits(self, repository: str) -> bool:
        """True if the repository's jobs go to the group's runners."""
        return self.visibility == "all" or repository in self.repositories


@dataclass(slots=True, eq=False)
class Runner:
    """One runner.

    Attributes:
        online: its connection, as GitHub shows it.
        alive: True while the process runs. Without its registration it is a zombie.
        held: busy without a job, as real runners sometimes are.
        replaces: id of the runner that this one replaces.
        version: of the runner application; empty: GitHub lists none, as GitHub Enterprise Server.
        refused: True if its process ended because GitHub gives its version no jobs.
    """

    id: int
    name: str
    pool: str
    labels: tuple[str, ...]
    ephemeral: bool
    online: bool = False
    alive: bool = True
    held: bool = False
    job: SandboxJob | None = None
    replaces: int | None = None
    version: str = NEWEST
    refused: bool = False

    @property
    def busy(self) -> bool:
        """Returns GitHub's `busy`."""
        return self.held or self.job is not None

    @property
    def waiting(self) -> bool:
        """True if it would take a job now, were it registered."""
        return self.online and self.alive and not self.busy
