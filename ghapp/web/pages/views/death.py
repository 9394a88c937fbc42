"""One death: what happened, for the developer; the re-run; and, apart, what the platform team needs. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ghapp.deaths.cause import HAPPENED, Cause, not_yours
from ghapp.deaths.death import LEAST_OF_BURST, Death, correlation
from ghapp.deaths.patterns import death_summary
from ghapp.deaths.post_mortem import JobFacts
from ghapp.deaths.rerun import (
    AUTO,
    WHY_NOT,
    Rerun,
    RerunFacts,
    RerunNote,
    RerunRefusal,
    RerunRules,
    RerunState,
    may_be_repeated,
    refusal,
)
from ghapp.report.documents import Fact
from ghapp.report.post_mortem import SIGHTINGS, memory_text
from ghapp.web.pages.views.deaths import DeathLine, mark_of
from ghapp.web.pages.views.wording import Moment, TextPart, coded, moment, web_address

MOST_LOG_LINES = 200

FINAL = frozenset({RerunRefusal.LATER_ATTEMPT.value, RerunRefusal.TOO_MANY.value})
"""Refusals, found by asking GitHub, that do not pass: the button is not shown again."""


class RerunKnown(NamedTuple):
    """What is known of a job's re-run.

    Attributes:
        rules: the pool's `rerun` table.
        granted: the installation granted `actions: write`.
        rerun: the one re-run, if it was requested.
        note: why the last try was not sent to GitHub; None if there was none.
        attempt: the job's attempt, as far as is known.
    """

    rules: RerunRules
    granted: bool
    rerun: Rerun | None = None
    note: RerunNote | None = None
    attempt: int = 1


class MomentLine(NamedTuple):
    """Something that was seen of the runner."""

    at: Moment | None
    text: str


class DeathFact(NamedTuple):
    """A fact for the platform team."""

    name: str
    value: str


class RerunView(NamedTuple):
    """The re-run: its state in sentences, and whether this visitor may request it here."""

    sentences: tuple[str, ...]
    has_button: bool


class DeadJobView(NamedTuple):
    """The job of a dead runner. `url` is at GitHub; empty if it is not known."""

    id: int
    name: str
    repository: str
    url: str
    conclusion: str


class DeathPageView(NamedTuple):
    """The page's content. `hides_log`: the visitor may not read the runner's log."""

    runner: str
    runner_id: int | None
    happened: str
    not_yours: str
    cause: str
    mark: str
    at: Moment | None
    pool: str
    node: str
    job: DeadJobView | None
    moments: tuple[MomentLine, ...]
    rerun: RerunView | None
    advice: tuple[TextPart, ...]
    common: tuple[str, ...]
    facts: tuple[DeathFact, ...]
    runner_log: tuple[str, ...]
    host_log: tuple[str, ...]
    hides_log: bool


def death_page(
    death: Death,
    others: Iterable[DeathLine],
    rerun: RerunKnown,
    now: float,
    *,
    manages: bool,
    evidence: Iterable[Fact] = (),
) -> DeathPageView:
    """Returns the post-mortem of a death that the visitor may see.

    The log of a runner without a known job is for people who manage the organization's runners; so is the log of its
    node, which has lines of other pods.

    Args:
        death: the death.
        others: deaths of the organization.
        rerun: what is known of the job's re-run.
        now: epoch seconds.
        manages: True if the page's buttons work for the visitor.
        evidence: of the runner, as its own page has it; empty if its record was deleted.
    """
    job, shows_log = death.job, death.job is not None or manages
    seen = [(each.at, SIGHTINGS.get(each.what, each.what)) for each in death.last_minutes]
    seen += [(at, text) for at, _, text in evidence] if not seen else []
    seen = sorted([*seen, *_end(death)], key=lambda each: each[0])
    return DeathPageView(
        runner=death.runner_name,
        runner_id=death.runner_id,
        happened=HAPPENED[death.cause],
        not_yours=not_yours(death.cause, death.reason, has_job=job is not None),
        cause=death.cause.value,
        mark=mark_of(death.cause, death.reason),
        at=moment(death.at, now),
        pool=death.pool,
        node=death.node,
        job=None
        if job is None
        else DeadJobView(
            job.id, job.name or f"Job {job.id}", job.repository, web_address(job.html_url), job.conclusion
        ),
        moments=tuple(MomentLine(moment(at, now), _sentence(text)) for at, text in seen),
        rerun=None if job is None or death.cause is Cause.CLEAN_EXIT else _rerun(death, rerun, now, manages=manages),
        advice=coded(death.advice_now),
        common=tuple(_common(death, others, now)),
        facts=tuple(_facts(death)),
        runner_log=death.runner_log[-MOST_LOG_LINES:] if shows_log else (),
        host_log=death.host_log[-MOST_LOG_LINES:] if manages else (),
        hides_log=bool(death.runner_log) and not shows_log,
    )


def _end(death: Death) -> Iterable[tuple[float, str]]:
    """Yields the end of the runner, which is always on record."""
    if death.exit_code is not None:
        yield death.at, "its container ended"
    elif death.pod:
        yield death.at, "its pod was found missing"
    elif not death.last_minutes:
        yield death.at, "it was lost, as its job shows"


def refusal_here(death: Death, known: RerunKnown, now: float) -> RerunRefusal | None:
    """Returns why a person cannot request the re-run, by the rules of the check run's button; None if they can.

    GitHub is not asked: the job that requests the re-run asks, and may find more against it.
    """
    job = death.job
    if job is None:
        return RerunRefusal.NOT_FAILED
    if not may_be_repeated(known.rerun, now):
        return RerunRefusal.ALREADY
    if known.note is not None and known.note.reason in FINAL:
        return RerunRefusal(known.note.reason)
    job_facts = JobFacts(
        job.id,
        job.name,
        job.head_sha,
        over=bool(job.conclusion),
        conclusion=job.conclusion,
        attempt=known.attempt,
    )
    return refusal(RerunFacts("", death, job_facts, known.rules, known.granted, fuse_closed=True))


def _rerun(death: Death, known: RerunKnown, now: float, *, manages: bool) -> RerunView:
    why = refusal_here(death, known, now)
    if known.rerun is not None and why is RerunRefusal.ALREADY:
        return RerunView(tuple(_progress(known.rerun, now)), has_button=False)
    sentences = [] if known.note is None else [_tried(known.note, now)]
    if why is not None and (known.note is None or known.note.reason != why.value):
        sentences.append(WHY_NOT[why])
    elif why is None and not manages:
        sentences.append('The button "Re-run this job" of the check run "Runner post-mortem" runs it again.')
    elif why is None:
        sentences.append("GitHub can run this job again, and the jobs that depend on it.")
    return RerunView(tuple(sentences), has_button=why is None and manages)


def _progress(rerun: Rerun, now: float) -> Iterable[str]:
    at = moment(rerun.at, now)
    yield f"A re-run was requested {'' if at is None else at.text} by {_who(rerun.by)}."
    if rerun.state is RerunState.REFUSED:
        yield f"GitHub refused it: {rerun.why}." if rerun.why else "GitHub refused it."
    elif rerun.state is RerunState.ACCEPTED:
        yield f"It is attempt {rerun.attempt + 1} of the run."
    else:
        yield "GitHub has not confirmed it yet."


def _tried(note: RerunNote, now: float) -> str:
    at = moment(note.at, now)
    words = WHY_NOT[RerunRefusal(note.reason)] if note.reason in set(RerunRefusal) else note.reason
    again = moment(note.next_at, now)
    later = f" It is tried again {again.text}." if again is not None and (note.next_at or 0.0) > now else ""
    return f"{_who(note.by)} tried to run it again {'' if at is None else at.text}. {words}{later}"


def _who(by: str) -> str:
    return "ghapp" if by == AUTO else by


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def _common(death: Death, others: Iterable[DeathLine], now: float) -> Iterable[str]:
    """Returns what the death has in common with earlier ones."""
    found = correlation(death_summary(death), [each.summary for each in others])
    if found.on_node > 1:
        yield f"It is death number {found.on_node} on node {death.node} within seven days."
    if found.of_pool >= LEAST_OF_BURST and (since := moment(found.since, now)) is not None:
        yield f"It is death number {found.of_pool} of pool {death.pool} in a row that began {since.text}."


def _facts(death: Death) -> Iterable[DeathFact]:
    facts = {
        "Cause": death.cause.value,
        "Reason": death.reason,
        "Exit code": "" if death.exit_code is None else str(death.exit_code),
        "Signal": "" if death.signal is None else str(death.signal),
        "Pod": f"{death.namespace}/{death.pod}" if death.namespace and death.pod else death.pod,
        "Node": death.node,
        "Image": death.image,
        "Memory": memory_text(death, death.memory_limit) if death.memory_limit else "",
    }
    return [DeathFact(name, value) for name, value in facts.items() if value]
