"""Waits for a gate to pass, and to keep passing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ghapp.errors import ServerUnavailableError, StoreUnavailableError
from ghapp.gate.gate_checks import Stability, stability_after
from ghapp.gate.judgement import Gate, held_for

POLL_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class GateTimeouts:
    """How long to wait, in seconds.

    Attributes:
        pass_seconds: for the gate to pass; 0: query it once.
        hold_seconds: in all, for a gate that passes to keep passing; at least `pass_seconds`.
        settle_seconds: how long it must keep passing; 0: a single pass is enough.
    """

    pass_seconds: float = 0.0
    hold_seconds: float = 0.0
    settle_seconds: float = 0.0


async def watch(
    query: Callable[[], Awaitable[Gate]],
    timeouts: GateTimeouts,
    clock: Callable[[], float],
    pause: Callable[[float], Awaitable[None]],
    report: Callable[[Gate | None, float], None],
) -> Gate:
    """Queries the gate until it has passed for long enough, or until a timeout.

    Args:
        query: judges the gate once.
        timeouts: how long to wait.
        clock: monotonic seconds.
        pause: sleeps for a number of seconds.
        report: called after each query with its result (None: no answer) and the seconds waited so far.

    Raises:
        StoreUnavailableError, ServerUnavailableError: no answer, and the timeout is over.
    """
    began, settling = clock(), Stability()
    while True:
        try:
            gate = await query()
        except (StoreUnavailableError, ServerUnavailableError):
            settling = Stability()
            if clock() - began >= timeouts.pass_seconds:
                raise
            report(None, clock() - began)
            await pause(POLL_SECONDS)
            continue
        settling = stability_after(settling, gate)
        result = held_for(gate, settling.held, timeouts.settle_seconds) if timeouts.settle_seconds else gate
        waited = clock() - began
        report(result, waited)
        if result.passed or waited >= (timeouts.hold_seconds if gate.passed else timeouts.pass_seconds):
            return result
        await pause(POLL_SECONDS)
