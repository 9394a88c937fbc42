"""One installation of the App: the tenant, and what it lets us do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

LEVELS = ("read", "write", "admin")

NEEDED = {
    "organization_self_hosted_runners": "write",
    "checks": "write",
    "actions": "read",
    "metadata": "read",
}
"""What app.yml asks for."""


@dataclass(frozen=True, slots=True)
class Installation:
    """Where the App is installed.

    Attributes:
        id: the installation's own id.
        org: the account's login.
        account_id: the account's id: it stays when the login changes.
        permissions: name → read or write.
        suspended: whether the organization suspended the App.
    """

    id: int
    org: str
    account_id: int
    permissions: Mapping[str, str] = field(default_factory=dict)
    suspended: bool = False

    def may(self, permission: str, level: str) -> bool:
        """Whether it holds a permission at that level or above."""
        held = self.permissions.get(permission)
        return held in LEVELS and LEVELS.index(held) >= LEVELS.index(level)

    def missing(self) -> list[str]:
        """What app.yml asks for and this installation has not granted, as `name: level`."""
        return [f"{name}: {level}" for name, level in NEEDED.items() if not self.may(name, level)]
