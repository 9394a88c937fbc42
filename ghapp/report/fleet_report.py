"""Renders the whole report: title, conclusion, buttons, and all sections in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ghapp.installations.scope import ScopeKind, kind_of
from ghapp.pods.texts import cluster_text
from ghapp.remediation.fuse import Position
from ghapp.report.check_run import LONGEST, PRESS, SWEEP, CheckRunAction, Conclusion, Report, digest_of, resume_of
from ghapp.report.fleet import FleetView, PoolView, PressedButton, by_pool
from ghapp.report.headline import Headline, HeadlineKind, Severity
from ghapp.report.headlines import headlines, title_of
from ghapp.report.links import PageLinks
from ghapp.report.markdown import code, linked, prose
from ghapp.runners.texts import as_of, healed_text, runners_text, summary_of
from ghapp.untrusted_text import one_line
from ghapp.versions.texts import versions_text
from ghapp.wording import capitalized, clock_time, time_of
from ghapp.workflow_jobs.texts import queue_table, unserved_text

LONGEST_TITLE = 200

MOST_HEADLINES = 10
"""In the summary; the text lists what they are about."""

NUMBERS_POSTED_LATER = (
    HeadlineKind.MASS_SUSPECT,
    HeadlineKind.TOO_OLD,
    HeadlineKind.UNSERVED,
    HeadlineKind.PHANTOM,
    HeadlineKind.SUSPECT,
    HeadlineKind.OFFLINE,
    HeadlineKind.SLOW,
    HeadlineKind.VERSION,
)
"""Their numbers change all the time, and are no news (`Headline.meaning`): the title states their time."""

INCIDENTS = (HeadlineKind.BLIND, HeadlineKind.LOST, HeadlineKind.FUSE)

_PAGES = {"": "Overview", "github": "GitHub"}

CONCLUSIONS = {
    Severity.GOOD: Conclusion.SUCCESS,
    Severity.BUSY: Conclusion.SUCCESS,
    Severity.ATTENTION: Conclusion.NEUTRAL,
    Severity.CRITICAL: Conclusion.ACTION_REQUIRED,
}


def conclusion_of(headline: Headline) -> Conclusion:
    """Returns what a headline makes of the check run: it requires action where a person of the platform has to act.

    What ends within days succeeds until it asks for attention, and authors of workflows correct their labels.
    """
    is_ours = headline.severity is Severity.ATTENTION and headline.ranks_as is None
    return Conclusion.ACTION_REQUIRED if is_ours and headline.needs_a_person else CONCLUSIONS[headline.severity]


def report_on(fleet: FleetView, now: float) -> Report:
    """Renders the report on a fleet as of `now` (epoch seconds)."""
    pools = by_pool(fleet, now)
    found = headlines(fleet, pools, now)
    is_stopped = Position.STOPPED in {fleet.whole_fuse.position, *(pool.fuse.position for pool in pools)}
    begin, jobs, text = as_of(fleet, now), queue_table(fleet, now), _text(fleet, pools, now)
    conclusion = max(map(conclusion_of, found), key=[*CONCLUSIONS.values()].index)
    actions: tuple[CheckRunAction, ...] = (SWEEP, resume_of(_stopped_at(fleet, pools))) if is_stopped else (SWEEP,)
    if kind_of(fleet.org) is ScopeKind.ENTERPRISE:
        actions = ()  # GitHub has no answer to who may manage its runners
    wrong = _headlines_text(found, fleet.links, now) + _pressed_text(fleet.pressed, now)
    title_as_of = f", as of {clock_time(now)}" if _has_numbers_posted_later(found) else ""
    return Report(
        title=one_line(title_of(found, names_pools=len(pools) > 1), LONGEST_TITLE - len(title_as_of)) + title_as_of,
        title_as_of=title_as_of,
        summary=summary_of(pools, now, begin + wrong, LONGEST - len(jobs)) + jobs,
        text=text,
        conclusion=conclusion,
        actions=actions,
        as_of=begin,
        volatile=jobs,
        urgent=_urgent(found, actions, fleet.pressed, len(fleet.death_patterns)),
        is_incident=any(each.kind in INCIDENTS or each.severity is Severity.CRITICAL for each in found),
        page="" if found[0].kind is HeadlineKind.WELL else found[0].page,
    )


def _has_numbers_posted_later(found: Sequence[Headline]) -> bool:
    """True if the title counts what is posted later; one version that ends is named, and several are counted."""
    several = Counter(each.kind for each in found)
    counting = {each.kind for each in found if several[each.kind] > 1 or each.short[:1].isdigit()}
    return not counting.isdisjoint(NUMBERS_POSTED_LATER)


def _urgent(
    found: Sequence[Headline],
    buttons: Sequence[CheckRunAction],
    pressed: PressedButton | None,
    death_patterns: int,
) -> tuple[tuple[str, str], ...]:
    """Returns hashes of what is to be posted at once, by the kind of the headline; buttons, press, deaths by theirs."""
    by_kind: dict[str, list[object]] = {"buttons": [*buttons], "deaths": [death_patterns]}
    if pressed is not None:
        by_kind[PRESS] = [pressed]
    for each in found:
        by_kind.setdefault(each.kind, []).append((each.news, each.severity))
    return tuple((kind, digest_of(news)) for kind, news in by_kind.items())


def _headlines_text(found: Sequence[Headline], links: PageLinks, now: float) -> str:
    """Renders what is wrong, since when, what to do, and where more is shown, for all who may read the repository.

    A pause is left out where the headline of the runners that it holds back has its reason, and what to do about it.
    """
    lines = []
    steps_of_losses = {(each.step, each.command) for each in found if each.kind is HeadlineKind.LOST}
    found = [
        each
        for each in found
        if each.kind is not HeadlineKind.PAUSED or (each.step, each.command) not in steps_of_losses
    ]
    for each in (headline.for_readers() for headline in found[:MOST_HEADLINES]):
        action = (
            f" {code(each.command)}" if each.command else f" [the App's settings]({each.link})" if each.link else ""
        )
        step = f" {prose(capitalized(each.step))}{':' if action else '.'}{action}" if each.step else ""
        since = "" if each.since is None else f" Since {time_of(each.since, now)}."
        page = links.below(each.page)
        where = "" if page is None else f" {linked(f'Page {_page_name(each.page)}', page)}."
        lines.append(f"- **{prose(each.sentence)}**{since}{step}{where}")
    if len(found) > MOST_HEADLINES:
        lines.append(f"- … and {linked(f'{len(found) - MOST_HEADLINES} more', links.overview)}")
    return "\n".join(lines) + "\n\n"


def _page_name(path: str) -> str:
    """Returns the name of a page by its path below the organization's own, as the pages' menu has it."""
    name = path.partition("?")[0].partition("#")[0]
    return _PAGES.get(name, name.capitalize())


def _pressed_text(pressed: PressedButton | None, now: float) -> str:
    """Renders the outcome of the button where it was pressed; empty if it was not pressed lately."""
    if pressed is None:
        return ""
    return (
        f"**{pressed.label}**, pressed by {code(pressed.who)} {time_of(pressed.at, now)}: {prose(pressed.outcome)}.\n\n"
    )


def _stopped_at(fleet: FleetView, pools: Sequence[PoolView]) -> float:
    """Returns the time of the latest stop (epoch seconds); 0.0 if no fuse is stopped."""
    fuses = [each for each in (fleet.whole_fuse, *(pool.fuse for pool in pools)) if each.position is Position.STOPPED]
    return max((each.stopped_at or each.since or 0.0 for each in fuses), default=0.0)


def _text(fleet: FleetView, pools: Sequence[PoolView], now: float) -> str:
    after = "".join(
        f"\n\n{part}"
        for part in (
            versions_text(fleet, now),
            unserved_text(fleet, now),
            healed_text(fleet, pools, now),
            cluster_text(fleet, now),
        )
        if part
    )
    return runners_text(fleet, pools, now, LONGEST - len(after)) + after
