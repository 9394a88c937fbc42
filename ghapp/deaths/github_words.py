"""Reads from a job's annotations and its raw log what GitHub and the runner wrote about its end. Pure.

A workflow writes into both, too: `::error::` makes an annotation, and any line of its output may contain `##[error]`.
So a sentence counts only as a whole, as GitHub or the runner writes it, and in the raw log only among the last errors:
what the workflow printed before it went on proves nothing. Sources: actions/runner 2.336 and annotations of lost jobs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

_LOST = re.compile(
    r"The self-hosted runner(?:: .{1,100})? lost communication with the server\."
    r"(?: Verify the machine is running and has a healthy network connection\.)?"
    r"(?: Anything in your workflow that terminates the runner process, starves it for CPU/Memory, or blocks its"
    r" network access can cause this error\.)?"
)
_SHUTDOWN = re.compile(
    r"The runner has received a shutdown signal\."
    r"(?: This can happen when the runner service is stopped, or a manually started runner is canceled\.)?"
)
_KILLED = re.compile(r"Process completed with exit code 143\.")
_CANCELED = re.compile(r"The operation was canceled\.")
_STOPPED = re.compile(
    r"The run was canceled by .{1,100}"
    r"|The job was canceled because .{1,500}"
    r"|Canceling since a .{1,500}"  # a newer run of the concurrency group, or a deadlock of two groups
    r"|The job (?:running on runner .{1,100} )?has exceeded the maximum execution time of .{1,40}"
)

_ERROR = re.compile(r"\ufeff?(?:\d{4}-\d\d-\d\dT[\d:.]+Z )?##\[error\](.*)")
"""An error in a raw log, with GitHub's time before it; a line with anything else before it is output of a step."""


class JobAnnotation(NamedTuple):
    """An annotation of a job's check run, as GitHub returns it.

    Attributes:
        message: its text.
        level: `notice`, `warning` or `failure`.
        path: of the file; `.github` if it is about the job.
        title: empty in GitHub's own ones.
    """

    message: str
    level: str = "failure"
    path: str = ".github"
    title: str = ""


class JobWords(NamedTuple):
    """What GitHub or the runner wrote about the end of a job.

    Attributes:
        lost: the runner lost communication with the server.
        shutdown: the runner received a shutdown signal.
        killed: steps that ended with exit code 143, SIGTERM: by the code, or by whatever stopped the runner.
        stopped: GitHub ended the job for another reason: a person cancelled the run, another job of it failed, a newer
            run of its concurrency group began, or the job reached its time limit.
        known: False if the annotations could not be read: then an absent sentence proves nothing.
    """

    lost: bool = False
    shutdown: bool = False
    killed: int = 0
    stopped: bool = False
    known: bool = True

    @property
    def of_runner(self) -> bool:
        """True if they report the end of the runner."""
        return self.lost or self.shutdown

    def explain_failures(self, failed_steps: int) -> bool:
        """True if each of the steps that failed was killed: a step that failed by itself is the code's."""
        return self.killed >= failed_steps


def read_words(annotations: Iterable[JobAnnotation], log: Iterable[str] = ()) -> JobWords:
    """Returns what a job's annotations and the last lines of its raw log say of its end."""
    annotated = [each.message for each in annotations if _may_be_githubs(each)]
    errors = [found[1].strip() for line in log if (found := _ERROR.fullmatch(line.rstrip()))]
    logged = _last_of(errors)
    sentences = annotated + logged
    return JobWords(
        lost=_count(_LOST, sentences) > 0,
        shutdown=_count(_SHUTDOWN, sentences) > 0,
        killed=max(_count(_KILLED, annotated), _count(_KILLED, logged)),  # the annotation of an error is the error
        stopped=_count(_STOPPED, sentences) > 0,
    )


def _may_be_githubs(annotation: JobAnnotation) -> bool:
    return annotation.level == "failure" and annotation.path == ".github" and not annotation.title


def _last_of(errors: Sequence[str]) -> list[str]:
    """Returns the errors at the end that are GitHub's or the runner's."""
    known = (_LOST, _SHUTDOWN, _KILLED, _CANCELED, _STOPPED)
    last: list[str] = []
    for error in reversed(errors):
        if not any(sentence.fullmatch(error) for sentence in known):
            break
        last.append(error)
    return last


def _count(sentence: re.Pattern[str], texts: Iterable[str]) -> int:
    return sum(sentence.fullmatch(text.strip()) is not None for text in texts)
