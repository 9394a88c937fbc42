"""Wait for a gate to pass, and for passing to hold."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from redis.exceptions import RedisError

from ghapp.health.gate.judgement import Gate, held_for
from ghapp.health.gate.stability import Stability, stability_after

POLL_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Patience:
    """How long is waited, in seconds.

    Attributes:
        pass_seconds: for the gate to pass; 0: one look.
        hold_seconds: in all, for a gate that passes to hold; not less than `pass_seconds`.
        settle_seconds: passing must hold for so long; 0: it need not.
    """

    pass_seconds: float = 0.0
    hold_seconds: float = 0.0
    settle_seconds: float = 0.0


async def watch(
    look: Callable[[], Awaitable[Gate]],
    patience: Patience,
    clock: Callable[[], float],
    pause: Callable[[float], Awaitable[None]],
    say: Callable[[Gate | None, float], None],
) -> Gate:
    """Look until it has passed for long enough, or until there is no more time.

    Args:
        look: one look.
        patience: how long.
        clock: seconds that only go on.
        pause: lets so many seconds pass.
        say: told after each look what it gave (None: Redis did not answer), and how long this has taken.

    Raises:
        RedisError: Redis does not answer, and there is no more time.
    """
    began, settling = clock(), Stability()
    while True:
        try:
            gate = await look()
        except RedisError:
            settling = Stability()
            if clock() - began >= patience.pass_seconds:
                raise
            say(None, clock() - began)
            await pause(POLL_SECONDS)
            continue
        settling = stability_after(settling, gate)
        answer = held_for(gate, settling.held, patience.settle_seconds) if patience.settle_seconds else gate
        waited = clock() - began
        say(answer, waited)
        if answer.passed or waited >= (patience.hold_seconds if gate.passed else patience.pass_seconds):
            return answer
        await pause(POLL_SECONDS)
