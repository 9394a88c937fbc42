"""The page of the gates of all blue/green pools: the words are those of `ghapp gate` and of the API's document."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ghapp.gate.active_shard import Role, last_deploy
from ghapp.gate.judgement import STOP, Gate
from ghapp.gate.next_steps import NextStep, wait_command
from ghapp.gate.texts import NOTHING_TO_DO, mark_of
from ghapp.web.gates import PoolGates
from ghapp.web.pages.page import Page, Values, Visit
from ghapp.web.pages.views.wording import Moment, TextPart, coded, moment

CLASSES = {"ok": "good", "NO": "stopped", "!": "suspect"}
"""By mark: the class of its colour, which never stands alone."""


ALL_PASS = {1: "The shard passes.", 2: "Both shards pass."}
"""By number of shards: the sentence if all of them pass."""


_WORD = re.compile(r"([\w.-]*\w)")
"""A word of a text, as names of runners are written; what is between words is kept."""


class GateCheckLine(NamedTuple):
    """One check: its mark (`ok`, `NO`, `!`), the class of its colour, its name and its result."""

    mark: str
    kind: str
    name: str
    text: tuple[TextPart, ...]


class GateStepLine(NamedTuple):
    """One next step and the sentences of its reason, as text and code."""

    step: tuple[TextPart, ...]
    why: tuple[tuple[TextPart, ...], ...]


class GateShard(NamedTuple):
    """One shard: its role, whether it passes, its checks, and the next steps, cheapest and safest first.

    `idle` stands in place of the steps if it passes and has none; else empty. `command` waits for the gate, as
    `ghapp gate` in a shell.
    """

    name: str
    role: str
    passed: bool
    severity: str
    sentence: str
    deployed: Moment | None
    ref: str
    check_url: str | None
    checks: tuple[GateCheckLine, ...]
    next: tuple[GateStepLine, ...]
    idle: str
    command: str


class GatePool(NamedTuple):
    """One pool. `stop`: the only next step of all its shards while the active one is unknown or disputed."""

    name: str
    min_online: int
    active: str
    stop: GateStepLine | None
    shards: tuple[GateShard, ...]


class GatePageView(NamedTuple):
    """The page's content."""

    severity: str
    sentence: str
    pools: tuple[GatePool, ...]


def gate_page(found: Sequence[PoolGates], now: float, base: str = "", *, manages: bool = False) -> GatePageView:
    """Returns the page.

    Args:
        found: the gates of each pool.
        now: the present time.
        base: the organization's address, for links to runners and jobs.
        manages: True if the page's buttons work for the visitor; others are not shown what only an admin can do.
    """
    pools = tuple(_pool(_with_admin_steps(each) if manages else each, now, base) for each in found)
    return GatePageView(*_headline(pools), pools)


def _with_admin_steps(found: PoolGates) -> PoolGates:
    gates = (replace(gate, next=tuple(step.for_admin() for step in gate.next)) for gate in found.gates)
    return found._replace(gates=tuple(gates))


def _pool(found: PoolGates, now: float, base: str) -> GatePool:
    links = _links(found, base)
    stops = [step for gate in found.gates for step in gate.next if gate.role is Role.UNKNOWN and step.step == STOP]
    active = next((gate.active for gate in found.gates if gate.active is not None), "")
    return GatePool(
        found.pool.name,
        found.pool.min_online,
        active,
        _step(stops[0], links) if stops else None,
        tuple(_shard(gate, found, now, links) for gate in found.gates),
    )


def _shard(gate: Gate, found: PoolGates, now: float, links: Mapping[str, str]) -> GateShard:
    deploy = last_deploy(found.deploys, gate.shard)
    checks = tuple(
        GateCheckLine(mark_of(each), CLASSES[mark_of(each)], each.name, _linked(each.text, links))
        for each in gate.checks
    )
    return GateShard(
        gate.shard,
        gate.role.value,
        gate.passed,
        _severity(gate),
        "passes" if gate.passed else "does not pass",
        None if deploy is None else moment(deploy.deployed_at, now),
        "" if deploy is None else deploy.ref,
        gate.check_url,
        checks,
        tuple(_step(each, links) for each in gate.next),
        NOTHING_TO_DO if gate.passed and not gate.next else "",
        wait_command(found.org, gate.pool, gate.shard),
    )


def _step(step: NextStep, links: Mapping[str, str]) -> GateStepLine:
    return GateStepLine(_linked(step.step, links), tuple(_linked(each, links) for each in step.sentences))


def _links(found: PoolGates, base: str) -> dict[str, str]:
    """Returns the pages of the runners and jobs that the gates name, by name and number."""
    runners = {name: f"{base}/runners/{runner_id}" for name, runner_id in found.runners.items()}
    return runners | {str(job_id): f"{base}/jobs/{job_id}" for job_id in found.jobs}


def _linked(text: str, links: Mapping[str, str]) -> tuple[TextPart, ...]:
    """Returns a text in parts, as `coded`; the words that are names of runners and numbers of jobs are links."""
    parts: list[TextPart] = []
    for each in coded(text):
        words = [each.text] if each.is_code or each.address else _WORD.split(each.text)
        for word in words:
            if word in links:
                parts.append(TextPart(word, is_code=False, address=links[word]))
            elif parts and word and not (each.is_code or each.address or parts[-1].is_code or parts[-1].address):
                parts[-1] = parts[-1]._replace(text=parts[-1].text + word)
            elif word:
                parts.append(each._replace(text=word))
    return tuple(parts)


def _severity(gate: Gate) -> str:
    if gate.role is Role.UNKNOWN:
        return "critical"
    if gate.passed:
        return "good"
    return "critical" if gate.role is Role.ACTIVE else "attention"


def _headline(pools: Sequence[GatePool]) -> tuple[str, str]:
    """Returns the class of the page's colour, and the most urgent thing in one sentence."""
    if not pools:
        return "", "No blue/green pool is configured."
    if stopped := [pool.name for pool in pools if pool.stop is not None]:
        return "critical", f"Stop: it is unknown which shard of {_names(stopped)} is active."
    shards = [(pool, shard) for pool in pools for shard in pool.shards]
    for role, severity in ((Role.ACTIVE, "critical"), (Role.INACTIVE, "attention")):
        failing = [f"{pool.name}/{shard.name}" for pool, shard in shards if shard.role == role and not shard.passed]
        if failing:
            verb = "does" if len(failing) == 1 else "do"
            return severity, f"{_names(failing)} ({role.value}) {verb} not pass."
    if not shards:
        return "", "No shard is known yet: no runner, deploy or setting names one."
    return "good", ALL_PASS.get(len(shards), f"All {len(shards)} shards pass.")


def _names(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


async def _content(visit: Visit) -> Values:
    """Only repositories that the visitor may read are named."""
    gates = await visit.data.gates(visit.org_state, visit.reads)
    return {"page": gate_page(gates, visit.clock(), visit.base, manages=visit.rights.manages)}


PAGE = Page("/gate", "Gate", "gate.html", _content)
