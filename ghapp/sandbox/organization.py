"""An organization: its name, its repositories, its fleet."""

from __future__ import annotations

from dataclasses import dataclass, field

from ghapp.sandbox.documents.accounts import Document, Pen
from ghapp.sandbox.documents.runnerpages import RunnerListPages
from ghapp.sandbox.fleet.jobs import SandboxRepository
from ghapp.sandbox.fleet.life import FleetLife
from ghapp.sandbox.fleet.shards import ShardLayout


@dataclass(eq=False)
class Organization:
    """An organization, its repositories by name and its fleet."""

    id: int
    login: str
    repositories: dict[str, SandboxRepository]
    fleet: FleetLife
    pen: Pen
    pages: RunnerListPages = field(init=False)
    shards: ShardLayout = field(init=False)

    def __post_init__(self) -> None:
        self.pages = RunnerListPages(self.fleet.roster)
        self.shards = ShardLayout(self.fleet)

    @property
    def account(self) -> Document:
        """Returns its short form."""
        return self.pen.account(self.login, self.id)

    def repository_document(self, repository: SandboxRepository) -> Document:
        """Returns one of its repositories in full."""
        return self.pen.repository(repository, self.account)

    def repository_with_id(self, repository_id: int) -> SandboxRepository | None:
        """Returns the repository of that id."""
        return next((r for r in self.repositories.values() if r.id == repository_id), None)

    def rename(self, login: str) -> None:
        """Renames it, and its repositories; all ids stay."""
        self.login = login
        for repository in self.repositories.values():
            repository.owner = login
