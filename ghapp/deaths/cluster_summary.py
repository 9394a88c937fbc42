"""Summary of an org's clusters: lasting phantoms, deaths of the last week, and stale namespaces.

Each check is merged into the result of the previous ones: transient phantoms are never reported, and no death is read
twice. Pure; times are epoch seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from ghapp.deaths.cause import Cause
from ghapp.deaths.death import WEEK_SECONDS, Death
from ghapp.deaths.patterns import DeathSummary, death_summary
from ghapp.pods.phantom_kinds import FoundSince, Phantom, key, lasting, subject_of
from ghapp.pods.pod import is_fresh

LASTING_SECONDS = 100.0
"""A phantom is reported once every check has found it for this long: with a check each 20 s, in about two minutes.

Longer than ARC waits at most before it makes the pod of a failed runner again (80 s); its objects alone may be listed
every 20 s.
"""
BRIDGED_SECONDS = 600.0
"""After a longer gap between two checks, the time between them counts as unknown."""

DEATH_DELAY_SECONDS = 900.0
"""Maximum delay until a death is recorded, and until its cause is final."""

MOST_DEATHS = 1_000
"""Maximum deaths kept of the last week; the latest are kept."""


MOST_CHANGES = 20
"""Changes of phantoms that are kept: the terminal shows them among the events."""


class PhantomChange(NamedTuple):
    """A phantom was found for long enough to be reported or, with `is_over`, is none any more. Epoch seconds."""

    at: float
    subject: str
    reason: str
    is_over: bool = False


class ClusterSummary(NamedTuple):
    """The result of all checks so far. Fields are only ever appended: stored records are read by position.

    Attributes:
        at: time of the last check.
        since: when each phantom, including transient ones, was first found, by `phantom_kinds.key`.
        phantoms: lasting phantoms.
        deaths: deaths of the last week without clean exits; latest first.
        hidden: reported phantoms that could not be checked since, by key: when first found, and when last found.
        deaths_since: from when on `deaths` is complete; None in rows of a version that kept one day of them.
        changes: the last phantoms that were reported, and that ended; oldest first.
    """

    at: float
    since: Mapping[str, float] = {}
    phantoms: tuple[Phantom, ...] = ()
    deaths: tuple[DeathSummary, ...] = ()
    hidden: Mapping[str, tuple[float, float]] = {}
    deaths_since: float | None = None
    changes: tuple[PhantomChange, ...] = ()


class StaleNamespace(NamedTuple):
    """A namespace of a pool that is not being read, and when it was last read; None for never."""

    namespace: str
    seen_at: float | None


def stale_namespaces(seen_at: Mapping[str, float | None], now: float) -> list[StaleNamespace]:
    """Returns the namespaces whose view is old or missing, sorted by name."""
    return [StaleNamespace(name, at) for name, at in sorted(seen_at.items()) if at is None or not is_fresh(at, now)]


def unread_since(before: ClusterSummary | None, now: float) -> float:
    """Returns the time from which deaths must be read for the next check."""
    week_ago = now - WEEK_SECONDS
    if before is None or before.deaths_since is None:
        return week_ago
    return max(before.at - DEATH_DELAY_SECONDS, week_ago)


def continued(before: ClusterSummary | None, now: float) -> ClusterSummary | None:
    """Returns the summary if the next check may continue it: not after a long gap, nor if the clock went back."""
    return before if before is not None and 0 <= now - before.at <= BRIDGED_SECONDS else None


def summary_after(
    before: ClusterSummary | None,
    found: Iterable[Phantom],
    recent: Iterable[Death],
    now: float,
    *,
    is_blind: bool = False,
) -> ClusterSummary:
    """Returns the summary after one more check.

    A reported phantom that could not be checked for some minutes keeps the time when it was first found.

    Args:
        before: the previous summary, as returned by `continued`.
        found: phantoms found by this check.
        recent: deaths from `unread_since` on.
        now: time of the check.
        is_blind: True if a part could not be read: phantoms that were not found may still exist.
    """
    known: FoundSince = (
        {} if before is None else {**{key: since for key, (since, _) in before.hidden.items()}, **before.since}
    )
    reported, since = lasting(found, known, now, LASTING_SECONDS)
    hidden = _hidden(before, since, now) if is_blind else {}
    deaths = {} if before is None else {(each.runner_name, each.at): each for each in before.deaths}
    for death in recent:
        deaths[death.runner_name, death.at] = death_summary(death)
    latest = sorted(deaths.values(), key=lambda each: (-each.at, each.runner_name))
    kept = [each for each in latest if each.at >= now - WEEK_SECONDS and each.cause is not Cause.CLEAN_EXIT]
    changes = () if before is None else (*before.changes, *_changes(before, reported, now, is_blind=is_blind))
    return ClusterSummary(
        now,
        since,
        tuple(reported),
        tuple(kept[:MOST_DEATHS]),
        hidden,
        now - WEEK_SECONDS,
        changes[-MOST_CHANGES:],
    )


def _changes(
    before: ClusterSummary, reported: Iterable[Phantom], now: float, *, is_blind: bool
) -> Iterator[PhantomChange]:
    """Yields which phantoms are reported for the first time, and which are over: not those that may still exist."""
    known = {**dict.fromkeys(before.hidden, ""), **{key(each): each.reason for each in before.phantoms}}
    present = {key(each): each for each in reported}
    for name, each in present.items():
        if name not in known:
            yield PhantomChange(now, each.subject, each.reason)
    for name, reason in known.items():
        if name not in present and not is_blind:
            yield PhantomChange(now, subject_of(name), reason, is_over=True)


def _hidden(before: ClusterSummary | None, since: FoundSince, now: float) -> dict[str, tuple[float, float]]:
    """Returns previously reported phantoms that are not found now, for at most `BRIDGED_SECONDS`."""
    if before is None:
        return {}
    reported = {key(each): (phantom_since(before, each), before.at) for each in before.phantoms}
    known = {**before.hidden, **reported}
    return {name: row for name, row in known.items() if name not in since and now - row[1] <= BRIDGED_SECONDS}


def possible_phantoms(summary: ClusterSummary) -> frozenset[str]:
    """Returns the names of what the last check found to be a phantom, and what was not found so for long enough yet."""
    reported = {key(each) for each in summary.phantoms}
    return frozenset(subject_of(each) for each in summary.since.keys() - reported)


def phantom_since(summary: ClusterSummary, phantom: Phantom) -> float:
    """Returns when a phantom was first found."""
    return summary.since.get(key(phantom), summary.at)
