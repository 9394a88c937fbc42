"""What the check run on a deployed commit says of the gate. Pure.

Its title and what it marks change only when something happens; the sentences beside them hold counts and ages, which
change all the time. `gist_of` tells the one from the other, so that GitHub is not asked each time a second passes.

It is never neutral: to GitHub a neutral check has succeeded, and whoever waits for this one would go on with a shard
that nobody has seen to work. Where the gate could not be judged in time the check run is `timed_out`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable

from ghapp.health.gate.active_shard import Role
from ghapp.health.gate.gate_checks import GateCheck, GateCheckStage
from ghapp.health.gate.judgement import SETTLED, Gate
from ghapp.health.gate.shard_checks import SINCE_DEPLOY, Check
from ghapp.report import LONGEST, Conclusion, Report
from ghapp.report.documents import timestamp
from ghapp.report.markdown import code, cut, heading, row

NAME = "Runner gate"
"""The check run's name, where a repository deploys one pool."""

LONGEST_SAID = 800
"""Characters of one sentence; there are some twenty."""

ROOM = (LONGEST - 2) // 2
"""Characters for the checks, and as many for the steps."""

_VARYING = re.compile(r"\d+|:.*")
"""Numbers and names in a step: in a large pool they are others at each look."""

CONCLUSIONS = {
    GateCheckStage.WAITS: None,
    GateCheckStage.PASSED: Conclusion.SUCCESS,
    GateCheckStage.FAILED: Conclusion.FAILURE,
    GateCheckStage.UNSEEN: Conclusion.TIMED_OUT,
}


def name_of(pool: str, *, is_alone: bool) -> str:
    """The check run's name. GitHub shows the newest of a name alone, so pools of one repository have their own."""
    return NAME if is_alone else f"{NAME}: {pool}"


def gate_report(gate: Gate, begun: GateCheck, stage: GateCheckStage) -> Report:
    """What is to be said of a gate.

    Args:
        gate: the answer, with `settled` in it where passing must hold.
        begun: the round, as it stands.
        stage: where the round is.
    """
    return Report(
        title=_title(gate, stage),
        summary="\n\n".join(_summary(gate, begun, stage)),
        text="\n\n".join(_text(gate)),
        conclusion=CONCLUSIONS[stage],
        actions=(),
    )


def superseded_report(pool: str, shard: str) -> Report:
    """What is said of a deploy that is followed no longer, for another one took its place."""
    why = "it was deployed again, or its pool names another repository, before this deploy was seen to pass"
    summary = f"{code(shard)} of {code(pool)} is followed no longer here: {why}."
    return Report(f"{shard} is followed no longer here", summary, "", Conclusion.CANCELLED, actions=())


def summary_digest(report: Report, gate: Gate) -> str:
    """Differs when something happened: another title, another mark, another step."""
    marks = [(check.name, check.passed) for check in gate.checks]
    steps = [_VARYING.sub("", step.step) for step in gate.next]
    said = json.dumps([report.title, report.conclusion, gate.role, marks, steps])
    return hashlib.sha256(said.encode()).hexdigest()[:32]


def _title(gate: Gate, stage: GateCheckStage) -> str:
    """No stranger's words: titles are no Markdown."""
    failing = ", ".join(check.name for check in _failing(gate))
    match stage:
        case GateCheckStage.PASSED:
            return f"{gate.shard} passes"
        case GateCheckStage.FAILED:
            return f"{gate.shard} does not pass: {failing}"
        case GateCheckStage.UNSEEN:
            return f"{gate.shard} could not be seen"
    if not failing or SINCE_DEPLOY in failing:
        return f"{gate.shard} waits for a list of runners since the deploy"
    if failing == SETTLED:
        return f"{gate.shard} passes, and must go on so"
    return f"{gate.shard} does not pass yet: {failing}"


def _summary(gate: Gate, begun: GateCheck, stage: GateCheckStage) -> Iterable[str]:
    where = f"{code(gate.shard)} of {code(gate.pool)} ({gate.role.value})"
    until = timestamp(float(int(begun.gives_up_at)))
    match stage:
        case GateCheckStage.PASSED:
            yield f"{where} passes" + (", and may take over." if gate.role is Role.INACTIVE else ".")
        case GateCheckStage.FAILED:
            yield f"{where} does not pass, and is waited for no longer. Asked again (Re-run), it gets another hour."
        case GateCheckStage.UNSEEN:
            yield (
                f"Nobody can say whether {where} passes: there is no list of runners since the deploy that holds. "
                "It is waited for no longer; asked again (Re-run), it gets another hour."
            )
        case GateCheckStage.WAITS:
            waits = next((code(each.said, LONGEST_SAID) for each in _failing(gate)), "a list of runners since then")
            yield f"{where} was deployed at {timestamp(begun.deployed_at)}. It is waited for until {until}: {waits}"
    users = next((check for check in gate.checks if check.name == "users"), None)
    if users is not None:
        yield f"Users: {code(users.said, LONGEST_SAID)}"


def _text(gate: Gate) -> Iterable[str]:
    rows = (row(_mark(each), each.name, code(_ageless(each), LONGEST_SAID)) for each in gate.checks)
    yield cut(heading("", "Check", "What was seen"), rows, len(gate.checks), ROOM, "checks")
    if not gate.next:
        return
    steps = (
        f"{number}. {code(step.step, LONGEST_SAID)}<br>{code(step.why, LONGEST_SAID)}"
        for number, step in enumerate(gate.next, 1)
    )
    yield cut("### What to do next, cheapest and safest first\n", steps, len(gate.next), ROOM, "steps")


def _ageless(check: Check) -> str:
    """While GitHub answers, nobody needs to read how many seconds ago, over and over."""
    return "it answers" if check.name == "github" and check.passed else check.said


def _mark(check: Check) -> str:
    return "ok" if check.passed else "**NO**" if check.decides else "!"


def _failing(gate: Gate) -> list[Check]:
    return [check for check in gate.checks if check.decides and not check.passed]
