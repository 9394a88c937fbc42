"""What is known of one runner (`Evidence`), and of an installation's lists (`Survey`).

Both are values; the functions of `observations` and `absence` add to them. Times are epoch seconds (float); None means
never.

Whether a runner is at work has several answers:

- `is_busy`: GitHub shows it busy, and not by its last job alone.
- `running_job`: a delivery reported the job's start and not its end, be it years ago.
- `is_at_work`: one of these two, as it is shown to people.
- `may_be_at_work`: as `is_busy`, but an ephemeral runner stays so until its only job is known to be over.
- `verdict.runs_a_job`, `verdict.may_run_an_unknown_job`: what vouches for the runner: a `running_job` that is not older
  than the longest job, or one that no delivery named while the runner `may_be_at_work`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from ghapp.runners.deletion_progress import Deletion
from ghapp.runners.remains import Remains

SECOND = 1.0
"""GitHub dates a job's end by the second in which it was."""


class PastLoss(NamedTuple):
    """The last loss of a runner that returned. Fields are only ever appended; times are epoch seconds.

    Attributes:
        first_at: the first evidence.
        ended_at: when the runner was seen again.
        first_404_at: the first GET that answered 404.
        confirmed_at: the second one; None if the runner was replaced because it was offline.
        granted_at: when its replacement was granted.
        replaced_at: when the request for its replacement was accepted.
        successor: the runner that came online in its place.
        healed_at: when that runner was first observed online.
    """

    first_at: float
    ended_at: float
    first_404_at: float | None = None
    confirmed_at: float | None = None
    granted_at: float | None = None
    replaced_at: float | None = None
    successor: int | None = None
    healed_at: float | None = None


class Outage(NamedTuple):
    """A time in which a runner was offline, or in which GitHub answered 404 for it. Fields are only ever appended.

    Attributes:
        began: the first observation of it (epoch seconds).
        ended: when the runner was seen online, or registered, again (epoch seconds).
        was_missing: True if GitHub answered 404 for it in that time.
    """

    began: float
    ended: float
    was_missing: bool = False


class FailedCalls(NamedTuple):
    """Calls about one runner, in a row, that GitHub refused or did not answer. Fields are only ever appended.

    Attributes:
        times: how many.
        last_at: when the last one failed (epoch seconds).
        why: its error, for people.
        reason: its kind: a `verdict.Reason`.
    """

    times: int
    last_at: float
    why: str = ""
    reason: str = ""


class Registration(NamedTuple):
    """GitHub's record of a runner, as returned by a list or a GET."""

    id: int
    name: str
    os: str
    online: bool
    busy: bool
    labels: tuple[str, ...]
    """All labels, in GitHub's spelling."""
    custom_labels: tuple[str, ...]
    """Labels chosen by the runner's owner, without GitHub's own (`self-hosted`, os, architecture)."""
    ephemeral: bool | None = None
    """None if GitHub does not report it (older GitHub Enterprise Servers)."""
    group_id: int | None = None
    version: str | None = None
    labels_complete: bool = True
    """False if GitHub's answer had labels that could not be read."""


class DoubtedJob(NamedTuple):
    """A job that was taken for the last one, until another one was that may be older. Fields are only ever appended.

    Attributes:
        id: GitHub's id.
        dated_at: its start by GitHub's clock, which was ahead of ours.
    """

    id: int
    dated_at: float


class Evidence(NamedTuple):
    """All evidence of one runner. Fields are only ever appended: stored records are read by position.

    What every runner has comes first: a row ends with its last field that has not its default.
    """

    # ---- its registration, as GitHub last showed it

    id: int
    name: str
    first_seen: float
    """Time of the first observation from any source."""
    labels: tuple[str, ...] = ()
    custom_labels: tuple[str, ...] = ()
    os: str = ""
    ephemeral: bool | None = None
    group_id: int | None = None
    version: str | None = None
    registered: bool = False
    """True once GitHub has shown its registration. Only registered runners can be lost."""
    listed: bool = False
    """True if the last complete list had the runner; its observation is then as old as that sweep."""
    observed_at: float | None = None
    """When GitHub last showed this runner, alone or in a list. Sweeps that change nothing do not update it."""
    online: bool = False
    busy: bool = False
    """As GitHub last showed it; see `is_busy`."""
    was_online: bool = False
    """True if the runner has been online or busy since it registered."""
    was_busy: bool = False
    """True once GitHub has shown it busy; see `may_be_at_work`."""
    offline_since: float | None = None
    outdated_at: float | None = None
    """Since when GitHub gives this ephemeral runner no jobs because of its version; see `outdated`."""

    # ---- the last state that was recorded and published; the current state is computed by `judge`

    state: str = ""
    state_since: float | None = None

    # ---- its last job

    job_id: int | None = None
    """The runner's last job, from a delivery or from GitHub's answer."""
    job_started_at: float | None = None
    job_ended_at: float | None = None
    last_delivery_at: float | None = None
    """When a delivery last showed the runner alive (GitHub's clock)."""
    job_end_dated: bool = True
    """False if `job_ended_at` is only when the end became known: no delivery and no answer of GitHub's dated it."""
    job_dated_at: float | None = None
    """GitHub's own date of its job's start, or of its end where the start is unknown, if that was ahead of our clock;
    else None. Only for the order of jobs: dates of GitHub's are compared with each other as they are."""
    doubted_job: DoubtedJob | None = None
    """The job that its last one displaced in doubt; it is the last one again once the other one is over."""
    job_lookups: int = 0
    """How often GitHub was asked for the end of its job, and had none."""
    job_looked_up_at: float | None = None

    # ---- its absence

    absent_since: float | None = None
    """Start of the first list without the runner that counts as a hint."""
    absent_of: int | None = None
    """Number of runners in that list; None if it had page churn."""
    missing_from_partial_list_at: float | None = None
    """Start of the first list with page churn that lacked the runner; None once the runner was seen again."""
    omissions: int = 0
    """How many lists in a row lacked the runner although its GET found it."""
    first_404_at: float | None = None
    """Time of the first GET that answered 404; `confirm_seconds` counts from it."""
    confirmed_at: float | None = None
    """Time of the second GET that answered 404, with all other conditions of the confirmation met."""
    last_shown_at: float | None = None
    """When GitHub last showed the registration of an absent runner; None while it is present."""
    deliveries_behind_at: float | None = None
    """When the confirmation of an absence was first deferred because deliveries were missing or late. Belongs to an
    earlier absence if it is before the present one."""
    failed_calls: FailedCalls | None = None
    """The calls about a lost runner that have failed since GitHub's last answer; see `failed_calls`."""
    remains: Remains | None = None
    """What the cluster shows of the runner since it became absent; None while registered or without a view."""
    reregistered_as: int | None = None
    """The id of a later registration with the same name: the same machine, configured again."""
    retired_at: float | None = None
    """When a controller reported that it removed this runner on purpose."""

    # ---- its replacement

    would_remediate_at: float | None = None
    """When the plan would have granted remediation, had dry-run not prevented it."""
    granted_at: float | None = None
    """When the plan granted remediation."""
    event_id: str | None = None
    """The `id` of its replace event; constant over all retries."""
    looked_at: float | None = None
    """When GitHub last answered, after a grant, that neither the runner nor another one of its name is registered."""
    deletion: Deletion | None = None
    """Progress of deleting its object or pod in the cluster; None before the first attempt."""
    removed_at: float | None = None
    was_deleted: bool = False
    """True if GitHub answered our DELETE with 204: a stale list may still show the registration."""
    replaced_at: float | None = None
    """When the request for its replacement was accepted."""
    last_replaced_at: float | None = None
    """When a request for its replacement was last accepted. It is kept when the runner returns, and still counts."""
    not_needed_at: float | None = None
    """When its loss was written off: the pool was stable without the runner, and no job waited for it."""
    successor: int | None = None
    """The id of the runner that came online in its place, once that was observed and counted."""
    healed_at: float | None = None
    """When that successor was first observed online."""
    incident: str | None = None
    """The incident that has this loss, once it is recorded and over; empty if it is not kept. Display only."""

    # ---- its return, and whose place it took

    back_at: float | None = None
    """When the runner last returned after a GET had answered 404. A list alone may omit a runner and show it again."""
    was_lost: bool = False
    """True if the absence that ended at `back_at` had been confirmed, be it revoked later: no mere suspicion."""
    past_loss: PastLoss | None = None
    """A loss that ended because the runner returned, until it is recorded among the incidents. Display only."""
    succeeds: int | None = None
    """The id of the lost runner in whose place this runner came online."""
    hidden_at: float | None = None
    """When its loss was over although no successor is known: the pool's own newcomers hide it. Display only."""
    unconfirmed_at: float | None = None
    """The date of what last revoked a confirmation of the present absence; None while it never was."""
    github_lead: float = 0.0
    """How far GitHub's clock was ahead of ours at least, in seconds, by the reports of this runner's jobs."""
    last_outage: Outage | None = None
    """The last outage that is over, of a runner that had been online or missing before. Display only."""
    job_end_dated_at: float | None = None
    """GitHub's own date of its job's end, if that was ahead of our clock; else None."""

    @property
    def last_sign_at(self) -> float | None:
        """When a delivery or GitHub's answer about its job last showed it alive (epoch seconds)."""
        ended_at = self.job_ended_at if self.job_end_dated else None
        signs = [at for at in (self.last_delivery_at, self.job_started_at, ended_at) if at is not None]
        return max(signs, default=None)

    @property
    def shown_at(self) -> float | None:
        """When GitHub last showed its registration, absent or not. Lists that changed nothing do not count."""
        return self.observed_at if self.last_shown_at is None else self.last_shown_at

    @property
    def is_busy(self) -> bool:
        """True if GitHub showed it busy later than in the second in which its known job ended.

        That job, or another one, is running. If GitHub's clock leads, the job ended earlier than dated by that much.
        """
        ended_at, shown_at = self.job_ended_at, self.shown_at
        if ended_at is None or shown_at is None:
            return self.busy and ended_at is None
        dated_at = ended_at if self.job_end_dated_at is None else self.job_end_dated_at
        return self.busy and shown_at > min(ended_at, dated_at - self.github_lead) + SECOND

    @property
    def is_at_work(self) -> bool:
        """True if GitHub shows it busy, or a delivery reported the start of a job and not its end."""
        return self.is_busy or self.running_job is not None

    @property
    def may_be_at_work(self) -> bool:
        """True if GitHub's answers show the runner busy: the last one, or any of an ephemeral runner.

        An ephemeral runner takes one job and leaves after it. GitHub was seen to return runners idle that were at work,
        so that an idle answer does not end that job; a delivery does, or GitHub's answer about the job.
        """
        return self.is_busy or (self.ephemeral is True and self.was_busy and self.job_ended_at is None)

    @property
    def running_job(self) -> int | None:
        """The job that the runner is running according to deliveries, else None."""
        if self.job_id is None or (self.job_ended_at is not None):
            return None
        return self.job_id


def is_absent(evidence: Evidence) -> bool:
    """True if GitHub last reported the runner as missing."""
    return evidence.absent_since is not None or evidence.first_404_at is not None


def missing_since(evidence: Evidence) -> float:
    """Returns when GitHub first reported an absent runner as missing: by a list, or by a 404 (epoch seconds)."""
    times = [at for at in (evidence.absent_since, evidence.first_404_at) if at is not None]
    return min(times)


Fold = Callable[[Evidence | None], Evidence | None]
"""Adds one observation. Input None: unknown runner. Returning the same object: no change. Returning None: delete."""


@dataclass(frozen=True, slots=True)
class Survey:
    """An installation's last complete list, and the result of later sweeps.

    Attributes:
        swept_at: when the last complete list was begun.
        total: number of runners in it.
        failing_since: since when no complete list could be read; None while sweeps succeed.
        failure: the cause, as a `verdict.Reason`; empty while sweeps succeed.
        blind: the spans (from, to) of the last week that no complete list covers, oldest first.
        changed_pages: how many pages changed from one list to the next, a mean of recent ones (`pacing.mean_changed`).
        repeats: how many lists, this one included, gave the history no sample because they found what its last one has.
        own_images: labels of runners, of any list, that look like those of GitHub-hosted runners; in lower case.
        deferred_since: since when a sweep waits for its turn, because other installations need GitHub's points as well;
            None if it does not. That is no failure.
        gaps: the spans (from, to) of the last week between two lists of which the second came more than an interval
            late, oldest first. These lists cover them all the same; longer ones are in `blind`.
    """

    swept_at: float | None = None
    total: int = 0
    failing_since: float | None = None
    failure: str = ""
    blind: tuple[tuple[float, float], ...] = ()
    changed_pages: float = 0.0
    repeats: int = 0
    own_images: tuple[str, ...] = ()
    deferred_since: float | None = None
    gaps: tuple[tuple[float, float], ...] = ()

    @property
    def blind_since(self) -> float | None:
        """Since when no complete list is known, on every surface: the last one; None while sweeps succeed."""
        if self.failing_since is None:
            return None
        return self.failing_since if self.swept_at is None else min(self.swept_at, self.failing_since)


HOSTED_IMAGES = ("ubuntu-", "windows-", "macos-")
"""Prefixes of the labels of GitHub-hosted runners."""


def looks_hosted(label: str) -> bool:
    """True if a label looks like those of GitHub-hosted runners; a pool may have such a label, too."""
    return label.lower().startswith(HOSTED_IMAGES)


STALE_LIST_SECONDS = 60.0
"""A list that was begun so long after something happened does not show what was before: lists were observed 50 s stale.
"""

LIST_LASTS_SECONDS = 300.0
"""Two complete lists without a failed sweep in between cover the time between them up to this length."""

BLIND_KEPT_SECONDS, MOST_BLIND_SPANS = 7 * 24 * 3600.0, 200


def covered_seconds(survey: Survey, since: float, now: float) -> float:
    """Returns the seconds from `since` to `now` that complete lists cover; every timeout and every proof counts these.

    The state during an outage of GitHub, or while no sweep ran, is unknown.
    """
    blind = sum(max(0.0, min(end, now) - max(begin, since)) for begin, end in blind_spans(survey, now))
    return max(0.0, now - since - blind)


def blind_spans(survey: Survey, now: float) -> list[tuple[float, float]]:
    """Returns the spans (from, to) until `now` that no complete list covers, oldest first; the present one ends now."""
    spans = list(survey.blind)
    if survey.swept_at is not None:
        covered_to = survey.swept_at + (0.0 if survey.failing_since is not None else LIST_LASTS_SECONDS)
        spans.append((covered_to, now))
    return [(begin, end) for begin, end in spans if begin < end]


def with_blind_span(survey: Survey, at: float) -> tuple[tuple[float, float], ...]:
    """Returns the blind spans after a complete list that was begun at `at` follows the list of `survey`."""
    before = survey.swept_at
    if before is None or at <= before:
        return survey.blind
    begin = before if survey.failing_since is not None else before + LIST_LASTS_SECONDS
    spans = _recent([*survey.blind, (begin, at)] if begin < at else survey.blind, at)
    if len(spans) > MOST_BLIND_SPANS:  # merging the two oldest spans waits too long rather than acts too early
        spans[:2] = [(spans[0][0], spans[1][1])]
    return tuple(spans)


def with_gap(survey: Survey, at: float, due_at: float | None) -> tuple[tuple[float, float], ...]:
    """Returns the gaps after a complete list that was begun at `at`, and was due at `due_at` (None: unknown).

    A list that is late by more than the time from the last list to `due_at` comes after twice the interval. What
    `with_blind_span` adds is no gap.
    """
    before, gaps = survey.swept_at, _recent(survey.gaps, at)
    is_blind = survey.failing_since is not None or before is None or at - before > LIST_LASTS_SECONDS
    if before is not None and due_at is not None and not is_blind and at - due_at > due_at - before > 0:
        gaps.append((before, at))
    return tuple(gaps[-MOST_BLIND_SPANS:])


def _recent(spans: Iterable[tuple[float, float]], at: float) -> list[tuple[float, float]]:
    return [span for span in spans if span[1] > at - BLIND_KEPT_SECONDS and span[0] < at]


def observed_at(evidence: Evidence, survey: Survey) -> float | None:
    """Returns when this runner was last observed.

    The last complete list observes each runner in it, and each that an earlier list lacked: it lacks that, too, or the
    runner would no longer be absent.
    """
    swept_at, observed = survey.swept_at, evidence.observed_at
    if swept_at is None or not (evidence.listed or evidence.absent_since is not None):
        return observed
    return swept_at if observed is None or observed < swept_at else observed
