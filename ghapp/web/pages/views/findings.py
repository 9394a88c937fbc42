"""The doctor's findings, problems first. Pure."""

from __future__ import annotations

from typing import NamedTuple

from ghapp.web.examination import CURRENT_SECONDS, Examined, FindingLike
from ghapp.web.pages.views.wording import Moment, TextPart, coded, moment
from ghapp.wording import are, capitalized, counted

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
    """The findings, problems first. `at` is None before the first; `severity` is the banner's, empty for old ones."""

    severity: str
    sentence: str
    at: Moment | None
    problems: tuple[FindingLine, ...]
    passed: tuple[FindingLine, ...]


RUNNING = "The checks are running; their findings appear here in a few seconds."
FAILED = "The checks could not be made, see the log of `ghapp web`. They are made again within a minute."


def findings_view(examined: Examined, now: float) -> FindingsView:
    """Returns the last findings. Old ones have their age, and what happens next."""
    if examined.findings is None or examined.at is None:
        return FindingsView("", RUNNING if examined.is_running else FAILED, None, (), ())
    ordered = sorted(examined.findings, key=lambda each: ORDER.index(each.status))
    lines = tuple(map(_line, ordered))
    wrong = sum(each.status == "wrong" for each in lines)
    warnings = sum(each.status == "warning" for each in lines)
    severity, sentence = (
        "critical" if wrong else "attention" if warnings else "good",
        _sentence(wrong, warnings, len(lines)),
    )
    at = moment(min(examined.at, now), now)  # the clock may have been set back
    if at is not None and not 0.0 <= now - examined.at < CURRENT_SECONDS:
        again = "The checks are running again." if examined.is_running else "The checks are made again within a minute."
        severity, sentence = "", f"{capitalized(at.text)}: {sentence} {again}"
    return FindingsView(
        severity,
        sentence,
        at,
        tuple(each for each in lines if each.status != "ok"),
        tuple(each for each in lines if each.status == "ok"),
    )


def _sentence(wrong: int, warnings: int, total: int) -> str:
    if wrong:
        also = f", and {counted(warnings, 'warning')}" if warnings else ""
        return f"{counted(wrong, 'check')} failed{also}."
    if warnings:
        return f"No check failed; there {are(warnings)} {counted(warnings, 'warning')}."
    return "The only check passed." if total == 1 else f"All {total} checks passed."


def _line(finding: FindingLike) -> FindingLine:
    where = finding.group if finding.org is None else f"{finding.group}, {finding.org}"
    status = str(finding.status)
    return FindingLine(status, KINDS[status], where, finding.name, coded(finding.text), coded(finding.fix or ""))
