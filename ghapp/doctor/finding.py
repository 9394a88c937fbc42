"""The result of one check of `ghapp doctor`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from ghapp.wording import counted


class FindingStatus(StrEnum):
    """Severity. Only `wrong` fails the command."""

    OK = "ok"
    WARNING = "warning"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check, with a fix if there is a problem.

    Attributes:
        group: one of `runner.GROUPS`.
        name: of the check, unique within its group and org.
        status: the severity.
        text: the result, as text.
        fix: what to do, in one sentence; None when the status is ok.
        org: the organization concerned; None when the finding concerns all.
    """

    group: str
    name: str
    status: FindingStatus
    text: str
    fix: str | None = None
    org: str | None = None


class FindingCounts(NamedTuple):
    """How many checks there were, how many of them failed, and how many found a risk."""

    checks: int
    problems: int
    warnings: int

    @classmethod
    def of(cls, findings: Iterable[Finding]) -> FindingCounts:
        """Counts findings."""
        counts = Counter(each.status for each in findings)
        return cls(counts.total(), counts[FindingStatus.WRONG], counts[FindingStatus.WARNING])

    def __str__(self) -> str:
        total = f"{counted(self.checks, 'check')} of the set-up"
        named = ((self.problems, "problem"), (self.warnings, "warning"))
        found = ", ".join(counted(count, what) for count, what in named if count)
        return f"{found} of {total}" if found else f"{total}: all well"


def ok(group: str, name: str, text: str, org: str | None = None) -> Finding:
    """A passed check."""
    return Finding(group, name, FindingStatus.OK, text, None, org)


def warning(group: str, name: str, text: str, fix: str, org: str | None = None) -> Finding:
    """A check that found a risk: it works now."""
    return Finding(group, name, FindingStatus.WARNING, text, fix, org)


def wrong(group: str, name: str, text: str, fix: str, org: str | None = None) -> Finding:
    """A failed check: it does not work."""
    return Finding(group, name, FindingStatus.WRONG, text, fix, org)
