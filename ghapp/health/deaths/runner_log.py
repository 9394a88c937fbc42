"""What a runner said last, as far as it tells why it ended.

`run-helper.sh` folds most return codes into 0, so an exit code alone says little; these lines say the rest. The words
are those of the runner 2.336 and of its `run-helper.sh`. A job can write to the same stream, so lines colour what is
told of a death; they are never a ground for taking a runner away.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

LONGEST_LINE = 1_000
"""Characters of a line that are looked at, and kept."""

RUNNING = "Running"
INTERRUPTED = ("Canceled", "Abandoned")
"""Results of a job that did not come to its own end."""


class RunnerError(StrEnum):
    """What kept the runner from going on, in its own words."""

    NONE = ""
    DELETED = "RegistrationDeleted"
    DEPRECATED = "VersionDeprecated"
    CONFLICT = "SessionConflict"


class ListenerExit(StrEnum):
    """How `run-helper.sh` says that the listener returned."""

    NONE = ""
    SUCCESS = "ListenerSucceeded"
    TERMINATED = "ListenerTerminated"
    CONFLICT = "SessionConflict"
    FAILED = "ListenerFailed"


class RunnerLog(NamedTuple):
    """What holds at the end of a log. What is said later overrules what was said before.

    Attributes:
        trouble: said, and not taken back by a new session or a job.
        closing: the listener's return, the last time.
        job: `Running`, or the result of the last job (`Succeeded`, `Failed`, `Canceled`, …); empty for none.
    """

    trouble: RunnerError = RunnerError.NONE
    closing: ListenerExit = ListenerExit.NONE
    job: str = ""

    @property
    def finished_a_job(self) -> bool:
        """Whether its last job came to its own end, well or badly: nothing ran when the runner ended."""
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
    """What holds after these lines, oldest first."""
    words = RunnerLog()
    for line in log:
        words = _after(words, line[:LONGEST_LINE])
    return words


def _after(words: RunnerLog, line: str) -> RunnerLog:
    said = _FRAME.sub("", line, count=1)
    # First what bears a job's name: somebody may have called a job "The runner no longer exists on the server".
    if _RUNNING.match(said):
        return RunnerLog(job=RUNNING)
    if ended := _ENDED.match(said):
        result = ended[1]
        # A job that was shut down because the registration is gone does not disprove that it is gone.
        return words._replace(job=result) if result in INTERRUPTED else RunnerLog(job=result)
    if _ALIVE.match(said):
        # A listener that was started anew has no job; one that found the way back still has what it had.
        return RunnerLog(job="" if words.job == RUNNING and said.startswith("Listening") else words.job)
    for trouble, pattern in _TROUBLES:
        if pattern.match(said):
            return words._replace(trouble=trouble)
    for closing, pattern in _CLOSINGS:
        if pattern.match(said):
            return words._replace(closing=closing)
    return words
