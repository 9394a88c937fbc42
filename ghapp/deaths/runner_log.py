"""Reads from a runner's last log lines why it ended.

`run-helper.sh` maps most return codes to 0, so the exit code alone explains little; the log adds the rest. The texts
are those of runner 2.336 and its `run-helper.sh`. A job can write to the same stream, so log lines only describe a
death; they are never a reason to remove a runner.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

LONGEST_LINE = 1_000
"""Characters of a line that are read and kept."""

RUNNING = "Running"
INTERRUPTED = ("Canceled", "Abandoned")
"""Results of a job that did not end by itself."""


class RunnerError(StrEnum):
    """An error that stopped the runner, from its log."""

    NONE = ""
    DELETED = "RegistrationDeleted"
    DEPRECATED = "VersionDeprecated"
    CONFLICT = "SessionConflict"


class ListenerExit(StrEnum):
    """The listener's return as logged by `run-helper.sh`."""

    NONE = ""
    SUCCESS = "ListenerSucceeded"
    TERMINATED = "ListenerTerminated"
    CONFLICT = "SessionConflict"
    FAILED = "ListenerFailed"


class RunnerLog(NamedTuple):
    """State at the end of a log. Later lines override earlier ones.

    Attributes:
        trouble: the last error that no new session or job has cleared.
        closing: the listener's last return.
        job: `Running`, or the result of the last job (`Succeeded`, `Failed`, `Canceled`, …); empty without a job.
    """

    trouble: RunnerError = RunnerError.NONE
    closing: ListenerExit = ListenerExit.NONE
    job: str = ""

    @property
    def finished_a_job(self) -> bool:
        """True if its last job ended by itself, with any result: no job was running when the runner ended."""
        return self.job not in {"", RUNNING, *INTERRUPTED}


_FRAME = re.compile(
    r"^(?:\d{4}-\d\d-\d\dT[\d:.]+Z )?"  # the kubelet's time
    r"(?:\[RUNNER [^\]]*\] ?)?"  # mirrored from _diag
    r"(?:WRITE (?:LINE|ERROR): )?"
    r"(?:\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ: )?"  # the runner's own time
    r"(?:An error occurr?ed: |Runner connect error: )?"
)
_RUNNING = re.compile(r"Running job: ")
_ENDED = re.compile(r"Job .* completed with result: (\w+)")
_ALIVE = re.compile(r"Listening for Jobs|Runner reconnected")
_TROUBLES = (
    (RunnerError.DELETED, re.compile(r"(?:Failed to create a session\. )?The runner registration has been deleted")),
    (RunnerError.DELETED, re.compile(r"The runner no longer exists on the server")),
    (RunnerError.DELETED, re.compile(r"Registration \S+ was not found")),
    (RunnerError.DEPRECATED, re.compile(r"(?:[^\"]{0,200} )?Runner version \S+ (?:is |has been )?deprecated")),
    (RunnerError.CONFLICT, re.compile(r"A session for this runner already exists")),
)
_CLOSINGS = (
    (ListenerExit.SUCCESS, re.compile(r"Runner listener exit with 0 return code")),
    (ListenerExit.TERMINATED, re.compile(r"Runner listener exit with terminated error")),
    (ListenerExit.CONFLICT, re.compile(r"Runner listener exit with Session Conflict error")),
    (ListenerExit.FAILED, re.compile(r"Exiting with unknown error code")),
)


def read_runner_log(log: Iterable[str]) -> RunnerLog:
    """Returns the state after these lines, oldest first."""
    state = RunnerLog()
    for line in log:
        state = _after(state, line[:LONGEST_LINE])
    return state


def _after(state: RunnerLog, line: str) -> RunnerLog:
    text = _FRAME.sub("", line, count=1)
    # Lines with a job's name come first: a job may be named "The runner no longer exists on the server".
    if _RUNNING.match(text):
        return RunnerLog(job=RUNNING)
    if ended := _ENDED.match(text):
        result = ended[1]
        # A job that was stopped because the registration was deleted does not disprove the deletion.
        return state._replace(job=result) if result in INTERRUPTED else RunnerLog(job=result)
    if _ALIVE.match(text):
        # A restarted listener has no job; a reconnected listener still has its job.
        return RunnerLog(job="" if state.job == RUNNING and text.startswith("Listening") else state.job)
    for trouble, pattern in _TROUBLES:
        if pattern.match(text):
            return state._replace(trouble=trouble)
    for closing, pattern in _CLOSINGS:
        if pattern.match(text):
            return state._replace(closing=closing)
    return state
