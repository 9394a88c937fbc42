"""Renders the check run "Runner gate" on a deployed commit. Pure.

The title and the marks change only when something happens; the sentences contain counts and ages, which change all the
time. `summary_digest` covers only the former, so that GitHub is not called every second.

The conclusion is never neutral: GitHub counts a neutral check as passed, and a pipeline that waits for this check
would continue with a shard that was not seen to work. If the gate could not be judged in time, the conclusion is
`timed_out`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable

from ghapp.gate.active_shard import Role
from ghapp.gate.gate_checks import GateCheck, GateCheckStage
from ghapp.gate.judgement import SETTLED, Gate
from ghapp.gate.shard_checks import SINCE_DEPLOY, Check
from ghapp.report.check_run import LONGEST, Conclusion, Report
from ghapp.report.markdown import code, cut, heading, prose, row
from ghapp.untrusted_text import LONGEST_WORD, one_line
from ghapp.wording import meant, time_of

NAME = "Runner gate"
"""The check run's name if a repository deploys one pool."""

NOTHING_TO_DO = "nothing to do"
"""Stands in place of the steps where a shard passes and there are none."""

LONGEST_TEXT = 1_200
"""Maximum characters of one sentence; there are about twenty sentences."""

ROOM = (LONGEST - 2) // 2
"""Maximum characters for the checks, and for the steps."""

_VARYING = re.compile(r"\d+|:.*")
"""Numbers and names in a step: in a large pool they differ at each evaluation."""

CONCLUSIONS = {
    GateCheckStage.WAITS: None,
    GateCheckStage.PASSED: Conclusion.SUCCESS,
    GateCheckStage.FAILED: Conclusion.FAILURE,
    GateCheckStage.UNSEEN: Conclusion.TIMED_OUT,
}


def no_shards(org: str, pool: str, pools: Collection[str], sharded: Iterable[str]) -> str:
    """Returns why a pool has no gate: it is unknown, or has no shards.

    Args:
        org: the organization.
        pool: its pool, as it was asked for.
        pools: the names of all its pools.
        sharded: of those with shards.
    """
    if pool not in pools:
        return f"unknown pool {pool} of {org}; {meant(pool, sharded, 'pools with shards are')}"
    others = meant("", sharded, "pools with shards are")
    return f"pool {pool} of {org} has no shards: set shard_label, shard_groups or shard_name in its [[pools]]; {others}"


def name_of(pool: str, *, is_alone: bool) -> str:
    """Returns the check run's name. GitHub shows only the newest check run of a name, so each pool needs its own."""
    return NAME if is_alone else f"{NAME}: {pool}"


def gate_report(gate: Gate, gate_check: GateCheck, stage: GateCheckStage) -> Report:
    """Renders the gate.

    Args:
        gate: the evaluated gate, including `settled` if passing must last.
        gate_check: the gate check in progress.
        stage: the stage of that gate check.
    """
    return Report(
        title=_title(gate, stage),
        summary="\n\n".join(_summary(gate, gate_check, stage)),
        text="\n\n".join(_text(gate)),
        conclusion=CONCLUSIONS[stage],
        actions=(),
    )


NONE = "no repository"


def superseded_report(pool: str, shard: str, repository: str | None) -> Report:
    """Renders a gate check that ended because another deploy superseded it.

    `repository` is where its pool has gate checks posted now, if that is another one; None if it was deployed again.
    """
    if repository is None:
        title, why = "was deployed again", "the shard was deployed again"
    else:
        title = "has its gate elsewhere"
        why = f"its pool names {code(repository) if repository else NONE} for gate checks now"
    summary = f"The gate of {code(shard)} of {code(pool)} was not seen to pass after this deploy: {why}."
    return Report(f"{one_line(shard, LONGEST_WORD)} {title}", summary, "", Conclusion.CANCELLED, actions=())


def summary_digest(report: Report, gate: Gate) -> str:
    """A hash that changes only when something happens: another title, another mark, another step."""
    marks = [(check.name, check.passed) for check in gate.checks]
    steps = [_VARYING.sub("", step.step) for step in gate.next]
    content = json.dumps([report.title, report.conclusion, gate.role, marks, steps])
    return hashlib.sha256(content.encode()).hexdigest()[:32]


def _title(gate: Gate, stage: GateCheckStage) -> str:
    """Renders the title as plain text, as GitHub shows it."""
    failing, shard = ", ".join(check.name for check in _failing(gate)), one_line(gate.shard, LONGEST_WORD)
    match stage:
        case GateCheckStage.PASSED:
            return f"{shard} passes"
        case GateCheckStage.FAILED:
            return f"{shard} does not pass: {failing}"
        case GateCheckStage.UNSEEN:
            return f"{shard} could not be checked"
    if not failing or SINCE_DEPLOY in failing:
        return f"{shard} waits for a list of runners since the deploy"
    if failing == SETTLED:
        return f"{shard} passes, and must keep passing"
    return f"{shard} does not pass yet: {failing}"


def _summary(gate: Gate, gate_check: GateCheck, stage: GateCheckStage) -> Iterable[str]:
    where = f"{code(gate.shard)} of {code(gate.pool)} ({gate.role.value})"
    until = time_of(gate_check.gives_up_at)
    match stage:
        case GateCheckStage.PASSED:
            yield f"{where} passes" + (", and may take over." if gate.role is Role.INACTIVE else ".")
        case GateCheckStage.FAILED:
            yield f"{where} did not pass in time. Click Re-run to check it for another hour."
        case GateCheckStage.UNSEEN:
            yield (
                f"It is unknown whether {where} passes: no valid list of runners was read since the deploy. "
                "The check timed out; click Re-run to check it for another hour."
            )
        case GateCheckStage.WAITS:
            waits = next((code(each.text, LONGEST_TEXT) for each in _failing(gate)), "a list of runners since then")
            yield f"{where} was deployed at {time_of(gate_check.deployed_at)}. Waiting until {until} for: {waits}"
    users = next((check for check in gate.checks if check.name == "users"), None)
    if users is not None:
        yield f"Users: {code(users.text, LONGEST_TEXT)}"


def _text(gate: Gate) -> Iterable[str]:
    rows = (row(_mark(each), each.name, prose(_ageless(each), LONGEST_TEXT)) for each in gate.checks)
    yield cut(heading("", "Check", "Result"), rows, len(gate.checks), ROOM, "checks")
    if not gate.next:
        return
    steps = (
        f"{number}. **{prose(step.step, LONGEST_TEXT)}**"
        + "".join(f"<br>{prose(each, LONGEST_TEXT)}" for each in step.sentences)
        for number, step in enumerate(gate.next, 1)
    )
    yield cut("### What to do next, cheapest and safest first\n", steps, len(gate.next), ROOM, "steps")


def _ageless(check: Check) -> str:
    """Returns the check's sentence; while GitHub answers, a text without the age, which would change constantly."""
    return "it answers" if check.name == "github" and check.passed else check.text


def mark_of(check: Check) -> str:
    """Returns the mark of a check: `ok`; `NO` if it fails the gate; `!` if it is only shown."""
    return "ok" if check.passed else "NO" if check.decides else "!"


def _mark(check: Check) -> str:
    mark = mark_of(check)
    return f"**{mark}**" if mark == "NO" else mark


def _failing(gate: Gate) -> list[Check]:
    return [check for check in gate.checks if check.decides and not check.passed]
