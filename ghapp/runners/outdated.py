"""Ephemeral runners whose version gets no jobs any more: they end at once, and are started again. Pure.

GitHub registers such a runner, and refuses it jobs; its listener ends, and whatever started it starts the next one. So
a pool may have runners that come and go within seconds, and none that works. Neither their coming nor their leaving
says anything of the pool: a loss of one is not to be replaced, for the next one comes by itself and is as old, and a
newcomer of that kind does not prove that replacing helps.

All of this holds only for a runner that no job is known of: a job proves that its version gets jobs. Apart from the
judgement, which asks these three questions, so that nothing else of it depends on versions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ghapp.runners.evidence import Evidence, is_absent, missing_since
from ghapp.runners.remains import PROCESS_ENDED

WITHOUT_JOB_SECONDS = 60.0
"""A runner that GitHub refuses ends within seconds. Lists show it once, or for as long as this."""


def version_ended(evidence: Evidence, ended_at: float) -> Evidence:
    """GitHub gives the version of this runner no jobs any more, since `ended_at`.

    A present runner is marked, so that it proves nothing; a missing one only if it ended because of that.
    """
    if evidence.outdated_at is not None or not _is_unused(evidence):
        return evidence
    marked = evidence._replace(outdated_at=max(evidence.first_seen, ended_at))
    return evidence if is_absent(evidence) and not ended_without_job(marked) else marked


def gets_no_jobs(evidence: Evidence) -> bool:
    """True if the runner is ephemeral, had no job, and its version gets none."""
    return evidence.outdated_at is not None and _is_unused(evidence)


def ended_without_job(evidence: Evidence) -> bool:
    """True if such a runner is missing because it is too old: it came, or its version ended, a minute before at most.

    False if the cluster shows that its process runs, and for a runner that ghapp has begun to replace.
    """
    outdated_at, last_shown_at = evidence.outdated_at, evidence.last_shown_at
    if outdated_at is None or last_shown_at is None or not is_absent(evidence) or not _is_unused(evidence):
        return False
    is_begun = evidence.granted_at is not None or evidence.removed_at is not None
    is_running = evidence.remains is not None and evidence.remains.kind not in PROCESS_ENDED
    is_at_once = outdated_at <= missing_since(evidence) and last_shown_at - outdated_at <= WITHOUT_JOB_SECONDS
    return is_at_once and not is_begun and not is_running


def refusals(runners: Iterable[Evidence]) -> Iterator[tuple[str, float]]:
    """Yields the version of each runner that ended because it is too old, and when that was first seen."""
    for each in runners:
        if each.version and ended_without_job(each):
            yield each.version, missing_since(each)


def _is_unused(evidence: Evidence) -> bool:
    return evidence.ephemeral is True and evidence.job_id is None and not evidence.busy
