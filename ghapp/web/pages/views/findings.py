"""The doctor's findings, problems first. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ghapp.web.examination import FindingLike
from ghapp.web.pages.views.wording import Moment, TextPart, coded, moment
from ghapp.wording import are, counted

ORDER = ("wrong", "warning", "ok")
KINDS = {"wrong": "stopped", "warning": "suspect", "ok": "good"}
"""By status: the class of its colour, which never stands alone."""


class FindingLine(NamedTuple):
    """One finding, and the class of its colour."""

    status: str
    kind: str
    where: str
    name: str
    text: tuple[TextPart, ...]
    fix: tuple[TextPart, ...]


class FindingsView(NamedTuple):
    """The findings, problems first. `at` is None while there are no findings of now; `severity` is the banner's."""

    severity: str
    sentence: str
    at: Moment | None
    problems: tuple[FindingLine, ...]
    passed: tuple[FindingLine, ...]


def findings_view(found: Sequence[FindingLike] | None, at: float | None, now: float) -> FindingsView:
    """Returns the findings of the examination that began at `at`; None for both while there are none of now."""
    if found is None:
        return FindingsView("", "The checks are running; their findings appear here.", None, (), ())
    ordered = sorted(found, key=lambda each: ORDER.index(each.status))
    lines = tuple(map(_line, ordered))
    wrong = sum(each.status == "wrong" for each in lines)
    warnings = sum(each.status == "warning" for each in lines)
    return FindingsView(
        "critical" if wrong else "attention" if warnings else "good",
        _sentence(wrong, warnings, len(lines)),
        moment(at, now),
        tuple(each for each in lines if each.status != "ok"),
        tuple(each for each in lines if each.status == "ok"),
    )


def _sentence(wrong: int, warnings: int, total: int) -> str:
    if wrong:
        also = f", and {counted(warnings, 'warning')}" if warnings else ""
        return f"{counted(wrong, 'check')} failed{also}."
    if warnings:
        return f"No check failed; there {are(warnings)} {counted(warnings, 'warning')}."
    return f"All {total} checks passed."


def _line(finding: FindingLike) -> FindingLine:
    where = finding.group if finding.org is None else f"{finding.group}, {finding.org}"
    status = str(finding.status)
    return FindingLine(status, KINDS[status], where, finding.name, coded(finding.text), coded(finding.fix or ""))
