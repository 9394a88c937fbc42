"""What is kept of one death, and what becomes of it when more is known. No I/O."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from ghapp.health.deaths.cause import Cause
from ghapp.health.deaths.death import DeadJob, Death
from ghapp.store.codec import Codec

MOST_LINES, LONGEST_LINE, MOST_CHARACTERS = 200, 2_000, 32_768
"""Of each log, its last lines."""

DEATHS = Codec(
    "death",
    Death,
    unknown={Cause: Cause.UNKNOWN},
    body=lambda row: zlib.decompress(row.partition(b"\0")[2]),
)


def row(dead: Death) -> bytes:
    """What is kept of a death. The name in clear, for the script; the rest deflated, for it is mostly log lines."""
    bounded = dead._replace(runner_log=_last(dead.runner_log), host_log=_last(dead.host_log))
    return dead.runner_name.encode() + b"\0" + zlib.compress(DEATHS.encode(bounded), 1)


def _last(lines: Sequence[str]) -> tuple[str, ...]:
    """The last lines that there is room for."""
    kept: list[str] = []
    left = MOST_CHARACTERS
    for line in reversed(lines[-MOST_LINES:]):
        short = line[:LONGEST_LINE]
        left -= len(short)
        if left < 0:
            break
        kept.append(short)
    return tuple(reversed(kept))


def joined(known: Death, told: Death) -> Death:
    """A death with what was found out since.

    Cause, reason and advice go together, and are judged from its log: whoever lacked that knew less.
    """
    wiser = known if known.runner_log and not told.runner_log else told
    return told._replace(
        runner_name=known.runner_name,
        at=known.at,
        node=told.node or known.node,
        reason=wiser.reason,
        cause=wiser.cause,
        advice=wiser.advice,
        runner_id=known.runner_id if told.runner_id is None else told.runner_id,
        pool=told.pool or known.pool,
        job=_fuller(known.job, told.job),
        runner_log=told.runner_log or known.runner_log,
        host_log=told.host_log or known.host_log,
    )


def _fuller(known: DeadJob | None, told: DeadJob | None) -> DeadJob | None:
    """What was told last, unless it lacks the conclusion that is known."""
    if told is None or known is None:
        return told or known
    return known if told.id == known.id and known.conclusion and not told.conclusion else told
