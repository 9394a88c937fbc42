"""What was seen of one runner, by whom, and when.

`Evidence` is a value; what adds to it is in `seen`. All times are epoch seconds (float); None means never.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from ghapp.health.runner.deletion_progress import Deletion
from ghapp.health.runner.remains import Remains


class Registration(NamedTuple):
    """GitHub's record of a runner, as a list or a GET shows it."""

    id: int
    name: str
    os: str
    online: bool
    busy: bool
    labels: tuple[str, ...]
    """All labels, as GitHub spells them."""
    custom_labels: tuple[str, ...]
    """Those that the runner's owner chose; GitHub's own (`self-hosted`, os, architecture) are not among them."""
    ephemeral: bool | None = None
    """None where GitHub does not say (older GitHub Enterprise Servers)."""
    group_id: int | None = None
    version: str | None = None


class Evidence(NamedTuple):
    """All that is known of one runner. Fields are only ever appended: stored records are read by position."""

    id: int
    name: str
    first_seen: float
    """When anyone first told us of this runner."""
    labels: tuple[str, ...] = ()
    custom_labels: tuple[str, ...] = ()
    os: str = ""
    ephemeral: bool | None = None
    group_id: int | None = None
    version: str | None = None

    registered: bool = False
    """GitHub has shown us its registration at least once. Only such a runner can be lost."""
    listed: bool = False
    """It was in the installation's last complete list; its observation is then as old as that sweep."""
    observed_at: float | None = None
    """When GitHub last answered about this runner alone or in a list. Sweeps that change nothing leave it."""
    online: bool = False
    busy: bool = False
    was_online: bool = False
    """It has been online (or at work) at least once since it registered."""
    offline_since: float | None = None

    absent_since: float | None = None
    """The first complete list that lacked it."""
    absent_of: int | None = None
    """How many runners that list had."""
    missing_at: float | None = None
    """The first GET that answered 404: the clock that `confirm_seconds` counts."""
    confirmed_at: float | None = None
    """The second GET that answered 404, with all the rest of the confirmation."""
    back_at: float | None = None
    """When it last came back after a GET had answered 404. Lists alone leave runners out and show them again."""

    job_id: int | None = None
    """The job it was last given, by a delivery or by GitHub's answer."""
    job_started_at: float | None = None
    job_ended_at: float | None = None
    last_delivery_at: float | None = None
    """When a delivery last showed it alive (by GitHub's clock)."""

    retired_at: float | None = None
    """A controller said that it removed this runner on purpose."""
    reregistered_as: int | None = None
    """The id of a later registration that bears its name: the same machine, configured anew."""

    granted_at: float | None = None
    """The plan let it be acted on."""
    event_id: str | None = None
    """The `id` of its replace event; the same over all retries."""
    removed_at: float | None = None
    replaced_at: float | None = None
    """The request for its replacement was accepted."""

    state: str = ""
    """The state last recorded and told; what is true now is for `judge` to say."""
    state_since: float | None = None

    would_remediate_at: float | None = None
    """The plan would have let it be acted on, were it not for dry-run."""

    missing_from_partial_list_at: float | None = None
    """The first of the lists that lacked it and had slipped; None once it was seen again."""

    deletion: Deletion | None = None
    """What came of having its object or pod deleted in the cluster; None while nobody tried."""

    remains: Remains | None = None
    """What the cluster shows of it since its registration went; None while it is registered or no view tells."""
    last_replaced_at: float | None = None
    """When a request for its replacement was last accepted. It outlives a return: what was done then still counts."""
    not_needed_at: float | None = None
    """Its loss is written off: the pool was stable without it, and no job waited for it."""

    @property
    def running_job(self) -> int | None:
        """The job that it is running by all that deliveries told, else None."""
        if self.job_id is None or (self.job_ended_at is not None):
            return None
        return self.job_id


Fold = Callable[[Evidence | None], Evidence | None]
"""One more observation; None in: never seen; the same object out: nothing changed; None out: forget it."""


@dataclass(frozen=True, slots=True)
class Survey:
    """An installation's last complete list, and what has come of looking since.

    Attributes:
        swept_at: when the last complete list was begun.
        total: how many runners it had.
        failing_since: since when no complete list could be had; None while all is well.
        failure: why, as a `verdict.Reason`; empty while all is well.
        blind: the spans (from, to) of the last week that no complete list covers, oldest first.
    """

    swept_at: float | None = None
    total: int = 0
    failing_since: float | None = None
    failure: str = ""
    blind: tuple[tuple[float, float], ...] = ()


LIST_LASTS_SECONDS = 300.0
"""Without a failed sweep between them, two complete lists cover the time between them up to this length."""

BLIND_KEPT_SECONDS, MOST_BLIND_SPANS = 7 * 24 * 3600.0, 20


def covered_seconds(survey: Survey, since: float, now: float) -> float:
    """The seconds from `since` to `now` that complete lists cover: what every patience and every proof counts.

    What went on while GitHub gave no answer, or while nobody asked, is not known.
    """
    spans = list(survey.blind)
    if survey.swept_at is not None:
        covered_to = survey.swept_at + (0.0 if survey.failing_since is not None else LIST_LASTS_SECONDS)
        spans.append((covered_to, now))
    blind = sum(max(0.0, min(end, now) - max(begin, since)) for begin, end in spans)
    return max(0.0, now - since - blind)


def with_blind_span(survey: Survey, at: float) -> tuple[tuple[float, float], ...]:
    """The blind spans, now that a complete list was begun at `at` after the one of `survey`."""
    before = survey.swept_at
    if before is None or at <= before:
        return survey.blind
    begin = before if survey.failing_since is not None else before + LIST_LASTS_SECONDS
    spans = [*survey.blind, (begin, at)] if begin < at else [*survey.blind]
    spans = [span for span in spans if span[1] > at - BLIND_KEPT_SECONDS and span[0] < at]
    if len(spans) > MOST_BLIND_SPANS:  # the two oldest become one: rather too patient than too hasty
        spans[:2] = [(spans[0][0], spans[1][1])]
    return tuple(spans)


def observed_at(evidence: Evidence, survey: Survey) -> float | None:
    """When this runner was last observed. Being in the last complete list is an observation of that time."""
    if evidence.listed and survey.swept_at is not None:
        return max(survey.swept_at, evidence.observed_at or 0.0)
    return evidence.observed_at
