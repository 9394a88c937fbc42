"""The stored form of a death, and how later findings are merged into it. No I/O."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from ghapp.deaths.cause import Cause
from ghapp.deaths.death import DeadJob, Death
from ghapp.store.codec import Codec

MOST_LINES, LONGEST_LINE, MOST_CHARACTERS = 200, 2_000, 32_768
"""Limits of each log; its last lines are kept."""


def _row(dead: Death, body: bytes) -> bytes:
    """Returns a death's row: the runner's name as text, for the script, then the record, deflated for its log lines."""
    return dead.runner_name.encode() + b"\0" + zlib.compress(body, 1)


DEATHS = Codec(
    "death",
    Death,
    unknown={Cause: Cause.UNKNOWN},
    body=lambda row: zlib.decompress(row.partition(b"\0")[2]),
    wrap=_row,
)


def bounded(dead: Death) -> Death:
    """Returns the death with its logs cut to the limits."""
    return dead._replace(runner_log=_last(dead.runner_log), host_log=_last(dead.host_log))


def _last(lines: Sequence[str]) -> tuple[str, ...]:
    """Returns the last lines within the limits."""
    kept: list[str] = []
    left = MOST_CHARACTERS
    for line in reversed(lines[-MOST_LINES:]):
        short = line[:LONGEST_LINE]
        left -= len(short)
        if left < 0:
            break
        kept.append(short)
    return tuple(reversed(kept))


def joined(known: Death, found: Death) -> Death:
    """Merges later findings into a known death.

    Cause, reason and advice belong together, and are derived from the container's end and from the log. They come from
    the one that has more of that: findings that were read before the watch added the pod's end must not undo it.
    """
    of_pod = known if known.pod_uid and not found.pod_uid else found
    lacks_end = known.exit_code is not None and found.exit_code is None
    lacks_log = bool(known.runner_log) and not found.runner_log
    decisive = known if lacks_end or lacks_log else found
    return found._replace(
        runner_name=known.runner_name,
        at=known.at,
        ahead=known.ahead,
        pod=of_pod.pod or known.pod,
        node=of_pod.node or known.node,
        namespace=of_pod.namespace,
        pod_uid=of_pod.pod_uid,
        exit_code=known.exit_code if lacks_end else found.exit_code,
        signal=known.signal if lacks_end else found.signal,
        reason=decisive.reason,
        cause=decisive.cause,
        advice=decisive.advice,
        runner_id=known.runner_id if found.runner_id is None else found.runner_id,
        pool=found.pool or known.pool,
        job=_merged_job(known.job, found.job),
        runner_log=found.runner_log or known.runner_log,
        host_log=found.host_log or known.host_log,
        last_minutes=found.last_minutes or known.last_minutes,
        image=found.image or known.image,
        memory_limit=found.memory_limit or known.memory_limit,
    )


def _merged_job(known: DeadJob | None, found: DeadJob | None) -> DeadJob | None:
    """Returns the later one, unless it lacks a known conclusion."""
    if found is None or known is None:
        return found or known
    if found.id != known.id:
        return found
    later = known if known.conclusion and not found.conclusion else found
    return later._replace(deploys=known.deploys or found.deploys)
