"""One thing that was looked at."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class FindingStatus(StrEnum):
    """How bad it is. Only `wrong` fails the command."""

    OK = "ok"
    WARNING = "warning"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found, and, when it is not well, what to do about it.

    Attributes:
        group: what it belongs to: one of `examination.GROUPS`.
        name: of what was looked at, within its group and org.
        status: how bad it is.
        said: what was found.
        fix: one sentence; None when all is well.
        org: whom it concerns; None for everybody.
    """

    group: str
    name: str
    status: FindingStatus
    said: str
    fix: str | None = None
    org: str | None = None


def ok(group: str, name: str, said: str, org: str | None = None) -> Finding:
    """All is well."""
    return Finding(group, name, FindingStatus.OK, said, None, org)


def warning(group: str, name: str, said: str, fix: str, org: str | None = None) -> Finding:
    """It works, and will hurt."""
    return Finding(group, name, FindingStatus.WARNING, said, fix, org)


def wrong(group: str, name: str, said: str, fix: str, org: str | None = None) -> Finding:
    """It does not work."""
    return Finding(group, name, FindingStatus.WRONG, said, fix, org)
