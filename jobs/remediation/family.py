"""Decides for an installation and the scopes of its repositories together, where their common fuse `*` asks for that.

Nothing of the other scopes is read while that fuse is closed and the planned scope has nothing to replace. While it is
open they are planned together at most once in `FAMILY_PLAN_SECONDS`, by whichever scope is planned then, and in between
nothing is granted. An installation without repositories' scopes decides alone.
"""

from __future__ import annotations

from asyncio import gather
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from ghapp.installations.installation import Installation
from ghapp.installations.pool_matching import ALL_POOLS
from ghapp.installations.repositories import rules_of
from ghapp.remediation.decision import Decision, DecisionInputs, Pools, by_pool, is_undisturbed
from ghapp.remediation.family import NOTHING_DECIDED, FamilyMember, decide_for_family, needs_family
from ghapp.remediation.fuse import Fuse, Position
from ghapp.report.org_view import OrgView
from ghapp.runners.evidence import Evidence, Survey
from ghapp.settings import PoolSettings, Settings
from jobs.context import JobContext
from jobs.remediation.plan_inputs import load_inputs

AT_ONCE = 25
"""Scopes that are read at once."""

_ACTS = 3
"""The highest rank of a scope, see `_rank`."""


class PlannedScope(NamedTuple):
    """A scope with all that is known for its plan. `view` is None if all of its runners are at rest."""

    installation: Installation
    view: OrgView | None
    rules: Sequence[PoolSettings]
    runners: dict[int, Evidence]
    pools: Pools
    inputs: DecisionInputs


class OtherDecision(NamedTuple):
    """What is decided for another scope of the family."""

    installation: Installation
    decision: Decision
    runners: dict[int, Evidence]


async def decide_in_family(
    context: JobContext, scope: PlannedScope, fuses: Mapping[str, Fuse], alone: Decision, now: float
) -> tuple[Decision, Sequence[OtherDecision]]:
    """Returns the decision for a scope, and those for others of its family that have anything to change.

    Args:
        context: of the job, which has the lock of the family.
        scope: the scope that is planned.
        fuses: its recorded fuses.
        alone: what it would decide if it were the only one.
        now: epoch seconds.
    """
    installation, settings = scope.installation, context.settings
    whole = fuses.get(ALL_POOLS)
    if not has_family(installation, settings) or not needs_family(alone, whole or Fuse()):
        return alone, ()
    is_open, rank = whole is not None and whole.position is not Position.CLOSED, _rank(installation, settings)
    is_due = not is_open or await context.fuses.is_family_plan_due(installation.caller, now)
    if installation.parent and rank == _ACTS and not is_due:
        return NOTHING_DECIDED, ()
    family = [each for each in await context.installations.all() if each.caller == installation.caller]
    if not any(each.parent for each in family):
        return alone, ()  # no repository has runners
    ranks = {each.id: _rank(each, settings) for each in (installation, *family)}
    if rank < max(ranks.values()):
        return _without_whole(alone), ()  # the fuse `*` is of the scopes that act
    others = [each for each in family if each.id != installation.id and ranks[each.id] == rank]
    if not is_due:
        return NOTHING_DECIDED, ()
    scopes = [scope, *await _load(context, others, now)]
    decide_together = partial(
        decide_for_family,
        whole=whole,
        fuse_limits=settings.of(next((each.org for each in family if not each.parent), installation.org)).fuse,
        limits=settings.of(installation.org).remediation,
        now=now,
    )
    tripped = next((each for each in alone.fuse_changes if each.pool == ALL_POOLS), None)
    if is_open or settings.of(installation.org).remediation.mode != "act":
        tripped = None
    elif tripped is None and installation.parent:
        # GitHub may answer wrongly for repositories alone, and their runners be few beside the organization's.
        repositories = [_member(each) for each in scopes if each.installation.parent]
        tripped = decide_together(repositories, tripped=None).whole
    decision = decide_together([_member(each) for each in scopes], tripped=tripped)
    if not (is_open or decision.is_open):
        return _without_whole(alone), ()
    await context.fuses.family_planned(installation.caller, now)
    own, *parts = (decision.parts[each.installation.id] for each in scopes)
    own = own if decision.whole is None else replace(own, fuse_changes=(decision.whole, *own.fuse_changes))
    return own, [
        OtherDecision(each.installation, part, each.runners)
        for each, part in zip(scopes[1:], parts, strict=True)
        if part.fuse_changes or part.plan.chosen or part.not_needed or part.needed
    ]


def has_family(installation: Installation, settings: Settings) -> bool:
    """True if an installation has repositories' scopes, or is one: known without a read."""
    return installation.parent != 0 or bool(rules_of(installation, settings.scopes))


def _rank(installation: Installation, settings: Settings) -> int:
    """Returns how far replacements of a scope go. Scopes that request nothing prove nothing for those that do."""
    mode = settings.of(installation.org).remediation.mode
    if mode == "act":
        return _ACTS if installation.may_remove_runners() else _ACTS - 1
    return 1 if mode == "dry-run" else 0


def _without_whole(decision: Decision) -> Decision:
    return replace(decision, fuse_changes=tuple(each for each in decision.fuse_changes if each.pool != ALL_POOLS))


async def _load(context: JobContext, installations: Sequence[Installation], now: float) -> list[PlannedScope]:
    """Reads other scopes; of one whose runners are all present, these alone."""
    surveys = await context.runners.surveys([each.id for each in installations])  # first: no runner is older than it
    loaded: list[PlannedScope] = []
    for start in range(0, len(installations), AT_ONCE):
        several = installations[start : start + AT_ONCE]
        loaded += await gather(*(_load_one(context, each, surveys[each.id], now) for each in several))
    return loaded


async def _load_one(context: JobContext, installation: Installation, survey: Survey, now: float) -> PlannedScope:
    settings = context.settings
    rules, limits = settings.pools_of(installation.org), settings.of(installation.org).evidence
    runners = await context.runners.all(installation.id)
    pools = by_pool(runners.values(), survey, rules, now, limits)
    if all(map(is_undisturbed, runners.values())):
        return PlannedScope(installation, None, rules, runners, pools, DecisionInputs(survey, now))
    view = replace(await context.org_view(installation), survey=survey)
    inputs = await load_inputs(context, installation, view, runners, now)
    return PlannedScope(installation, view, rules, runners, pools, inputs)


def _member(scope: PlannedScope) -> FamilyMember:
    installation, view, rules, _, pools, inputs = scope
    if view is None:
        return FamilyMember(installation.id, pools, inputs, rules=rules)
    paused = [pool for pool in pools if view.is_paused(pool)]
    return FamilyMember(installation.id, pools, inputs, view.fuses, paused, rules)
