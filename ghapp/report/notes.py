"""What to know beside the headlines: sentences that need no action, and that no headline has. Pure.

The page, `ghapp runners`, the terminal and the API show them below the headlines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ghapp.report.fleet import FleetView, PoolView
from ghapp.report.headline import Headline, HeadlineKind
from ghapp.report.loss_headlines import missing_at_once
from ghapp.runners.absence import MOST_NAMED, never_listed
from ghapp.runners.next_attempt import is_list_late
from ghapp.runners.verdict import State
from ghapp.wording import are, bounded, counted, duration, time_of


def notes(fleet: FleetView, pools: Sequence[PoolView], found: Sequence[Headline], now: float) -> list[str]:
    """Returns the sentences.

    Args:
        fleet: the organization's state.
        pools: from `by_pool`, of this fleet at `now`.
        found: its headlines.
        now: epoch seconds.
    """
    return [
        *_late_list(fleet, now),
        *_being_checked(fleet, pools, found, now),
        *_never_listed(fleet, now),
        *_deaths(fleet, now),
    ]


def _never_listed(fleet: FleetView, now: float) -> Iterator[str]:
    """Runners that deliveries alone have shown; no list, so that they are in no number of the fleet."""
    if runners := never_listed([*fleet.runners], fleet.view.survey):
        names = ", ".join(bounded(sorted(each.name for each in runners), MOST_NAMED))
        began = min(each.job_started_at for each in runners if each.job_started_at is not None)
        yield (
            f"{counted(len(runners), 'runner')} took a job at {time_of(began, now)} or later, and no list has shown "
            f"{'it' if len(runners) == 1 else 'them'}: {names}. If GitHub ends the job, `ghapp deaths` says why."
        )


def _late_list(fleet: FleetView, now: float) -> Iterator[str]:
    """How old the list is on which all that is shown rests, if a newer one should be there."""
    survey = fleet.view.survey
    if survey.swept_at is not None and is_list_late(survey, fleet.sweep_seconds, now):
        yield f"Runners are shown as of {time_of(survey.swept_at, now)}, {duration(now - survey.swept_at)} ago."


def _being_checked(fleet: FleetView, pools: Sequence[PoolView], found: Sequence[Headline], now: float) -> Iterator[str]:
    """Suspects whose second request is due by now or soon, and is not held up by a job that may run on them.

    That all is well counts suspects itself.
    """
    if found[0].kind is HeadlineKind.WELL:
        return
    seconds = fleet.view.limits.confirm_seconds
    suspects = sum(
        each.state is State.SUSPECT
        and each.replacement.blocked_by is None
        and each.verdict.since is not None
        and now - each.verdict.since <= 2 * seconds
        for pool in pools
        if not missing_at_once(fleet, pool, now)  # a headline counts them
        for each in pool.members
    )
    if suspects:
        yield (
            f"{counted(suspects, 'runner')} left GitHub's list and {are(suspects)} being checked: whether "
            f"{'it is' if suspects == 1 else 'they are'} lost is known within {duration(seconds)}."
        )


def _deaths(fleet: FleetView, now: float) -> Iterator[str]:
    if fleet.recent_deaths is None:
        return
    total, last = fleet.recent_deaths
    which = f"{last.runner_name}, {last.cause}, {duration(now - last.at)} ago"
    died = f"{counted(total, 'runner')} died within an hour{'' if total == 1 else '; the last one'}"
    yield f"{died}: {which} (`ghapp deaths`)."
