"""Each rule of the judgement, broken in turn: whatever is not caught here, the simulation does not watch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any, NamedTuple
from unittest.mock import patch

from ghapp.health import pacing
from ghapp.health.remediation import decision, fuse, fuse_counts, steps
from ghapp.health.remediation.steps import RemediationStep
from ghapp.health.runner import absence, evidence, observations, verdict
from tests.simulation import acting, calls, driver, folds, store


class Patch(NamedTuple):
    """One attribute, replaced."""

    where: Any
    name: str
    by: Any


Mutation = tuple[Patch, ...]

_unlisted, _get_missed, _tally, _prove = (
    observations.unlisted,
    observations.get_missed,
    fuse_counts.fuse_counts,
    fuse._prove,
)
_judge, _start_proving, _candidates = verdict.judge, fuse._start_proving, decision._candidates
_decide, _may_act, _job_ended = decision.decide, steps.may_act, observations.job_ended


def _confirmed_at_once(known: evidence.Evidence, at: float) -> evidence.Evidence:
    missed = _get_missed(known, at)
    return missed if missed is known else missed._replace(confirmed_at=missed.confirmed_at or at)


def _gone_by_the_list(known: evidence.Evidence, at: float, total: int) -> evidence.Evidence:
    absent = _unlisted(known, at, total)
    return absent if absent is known else absent._replace(missing_at=at, confirmed_at=absent.confirmed_at or at)


def _fresh_id(known: evidence.Evidence, at: float, event_id: str) -> evidence.Evidence:
    return known._replace(granted_at=at, event_id=event_id)


def _never_stale(known: Any, survey: Any, now: float, limits: verdict.Limits) -> verdict.Verdict:
    return _judge(known, survey, now, replace(limits, stale_seconds=1e12))


def _no_answer_is_a_404(me: calls.Calls, answers: dict[int, absence.GetResult], runner_id: int) -> None:
    answers[runner_id] = absence.GetResult(None, me.clock())


def _not_awaited(before: fuse.Fuse, pool: fuse.FuseCounts, now: float, limits: fuse.FuseLimits) -> fuse.Fuse:
    return _prove(before, replace(pool, successors=10**6), now, limits)


def _returns_ignored(*args: Any, **more: Any) -> fuse.FuseCounts:
    return replace(_tally(*args, **more), returned=False)


def _granted_or_not(pools: decision.Pools, *rest: Any) -> list[Any]:
    forgetful = {
        pool: [(each._replace(granted_at=None), state) for each, state in members] for pool, members in pools.items()
    }
    return _candidates(forgetful, *rest)


def _ended_by_its_end(known: evidence.Evidence, job_id: int, at: float, _started_at: float | None = None) -> Any:
    return _job_ended(known, job_id, at, started_at=at)


def _all_time_counts(_survey: Any, since: float, now: float) -> float:
    return max(0.0, now - since)


def _no_installation_fuse(turned: Any, *_rest: Any, **_more: Any) -> dict[str, decision.FuseChange]:
    return {fuse.WHOLE_INSTALLATION: decision.FuseChange(fuse.WHOLE_INSTALLATION, None, fuse.Fuse(), fuse.FuseCounts())}


def _everywhere(name: str, by: Callable[..., Any], *modules: Any) -> Mutation:
    return tuple(Patch(module, name, by) for module in modules)


MUTATIONS: Mapping[str, Mutation] = {
    "one 404 suffices": (Patch(observations, "get_missed", _confirmed_at_once),),
    "a list that lacks it suffices": (Patch(observations, "unlisted", _gone_by_the_list),),
    "confirm_seconds do not pass": (
        Patch(
            absence,
            "due",
            lambda records, survey, now, limits: {
                each.id: each for each in absence.suspects(records, survey, now, limits) if each.missing_at is not None
            },
        ),
        Patch(
            absence,
            "confirm_at",
            lambda records, survey, now, limits: (
                [now]
                if any(each.missing_at is not None for each in absence.suspects(records, survey, now, limits))
                else []
            ),
        ),
    ),
    "no answer is an absence": (Patch(calls.Calls, "unanswered", _no_answer_is_a_404),),
    "an incomplete list counts": (Patch(absence, "lenient", lambda look: look._replace(flaw=None)),),
    "no control list": (
        Patch(absence, "doubt", lambda _control, _survey: None),
        Patch(absence, "unproven", lambda due, _control: [each for each in due if each.running_job is None]),
    ),
    "an insane installation is believed": (Patch(absence, "is_sane", lambda _known, _now: True),),
    "a job does not vouch for its runner": (Patch(evidence.Evidence, "running_job", property(lambda _self: None)),),
    "a job that is reported in between does not vouch": _everywhere(
        "runs_a_job", lambda _evidence, _now: False, observations, verdict, decision, steps
    ),
    "the late end of an older job ends the one that runs": (Patch(observations, "job_ended", _ended_by_its_end),),
    "busy and never reported is idle": (Patch(absence, "may_run_an_unknown_job", lambda _evidence: False),),
    "no fuse over the whole installation": (Patch(decision, "_whole_installation", _no_installation_fuse),),
    "time without an answer counts": _everywhere("seen_seconds", _all_time_counts, verdict, fuse_counts),
    "a stopped fuse always waits for a person": (Patch(fuse, "_settle", lambda before, *_: before),),
    "what a job waits for is written off": (Patch(decision._Counts, "_queued_for", lambda _self, _members: 0),),
    "a grant outlives its reason": (Patch(folds, "is_as_planned", lambda _planned, _found: True),),
    "newcomers under way prove a batch": (
        Patch(
            fuse_counts, "successors", lambda members, *_: sum(state is verdict.State.HEALTHY for _, state in members)
        ),
    ),
    "an ephemeral job's end does not count": _everywhere("is_spent", lambda _evidence: False, verdict),
    "a new registration of the name does not count": (
        Patch(observations, "reregistered", lambda known, _as_id: known),
        Patch(
            absence,
            "unproven",
            lambda due, control: [each for each in due if each.id not in control.runners and each.running_job is None],
        ),
        Patch(steps, "heir_of", lambda _evidence, _bearers: None),
    ),
    "a controller's word does not count": (Patch(observations, "retired_by_controller", lambda known, at: known),),
    "no second look before acting": (
        Patch(steps, "step_after", lambda _evidence, _answer, _bearers: RemediationStep.REMOVE),
    ),
    "old observations answer": _everywhere("judge", _never_stale, verdict, decision, absence, driver, acting),
    "the fuse never trips": _everywhere("turn", lambda before, *_, **__: before, fuse, decision),
    "the batch is not awaited": (Patch(fuse, "_prove", _not_awaited),),
    "returns do not hold the batches": _everywhere("tally", _returns_ignored, fuse_counts, decision),
    "the first batch is everyone": (
        Patch(
            fuse,
            "_start_proving",
            lambda before, now, limits, reason: _start_proving(before, now, replace(limits, first_batch=99), reason),
        ),
    ),
    "a stopped fuse lets through": _everywhere("room", lambda _fuse, _pool: None, fuse, decision),
    "the first grant does not hold": (
        Patch(observations, "granted", _fresh_id),
        Patch(decision, "_candidates", _granted_or_not),
    ),
    "a pause does not hold": (
        Patch(decision, "decide", lambda pools, fuses, _paused, *rest: _decide(pools, fuses, (), *rest)),
        Patch(steps, "may_act", lambda *given, paused, **more: _may_act(*given, paused=False, **more)),
    ),
    "a claim does not hold": _everywhere("claim_on", lambda _claimed, _name, _now: None, decision, acting),
    "the ceiling is ignored": (Patch(pacing, "ceiling", lambda _purpose, _limits: 2.0),),
    "retry-after is ignored": (Patch(store.Meter, "hold", lambda _self, _now, _seconds: None),),
}


CAUGHT_BY: Mapping[str, int] = {
    "confirm_seconds do not pass": 10,
    "no answer is an absence": 51,
    "an incomplete list counts": 45,
    "no control list": 27,
    "an insane installation is believed": 37,
    "the late end of an older job ends the one that runs": 26,
    "busy and never reported is idle": 10,
    "no fuse over the whole installation": 65,
    "time without an answer counts": 7,
    "a stopped fuse always waits for a person": 69,
    "what a job waits for is written off": 50,
    "a grant outlives its reason": 2,
    "newcomers under way prove a batch": 48,
    "a controller's word does not count": 25,
    "no second look before acting": 51,
    "old observations answer": 7,
    "the fuse never trips": 7,
    "the batch is not awaited": 10,
    "returns do not hold the batches": 19,
    "the first batch is everyone": 7,
    "a stopped fuse lets through": 7,
    "the first grant does not hold": 7,
    "a pause does not hold": 37,
    "a claim does not hold": 45,
    "the ceiling is ignored": 7,
    "retry-after is ignored": 18,
}
"""A day that catches it, where the first ones do not: `python -m tests.simulation --broken RULE` finds another."""


@contextmanager
def broken(name: str) -> Iterator[None]:
    """The judgement with that rule broken; none is by an empty name."""
    with ExitStack() as stack:
        for each in MUTATIONS[name] if name else ():
            stack.enter_context(patch.object(each.where, each.name, each.by))
        yield
