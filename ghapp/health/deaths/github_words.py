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
_CANCELED = re.compile(r"The operation was canceled\.|The job was canceled because .*|The run was canceled by .*")

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
        killed: a step ended with exit code 143, SIGTERM: by the code, or by whatever stopped the runner.
    """

    lost: bool = False
    shutdown: bool = False
    killed: bool = False

    @property
    def of_runner(self) -> bool:
        """True if they report the end of the runner."""
        return self.lost or self.shutdown


def read_words(annotations: Iterable[JobAnnotation], log: Iterable[str] = ()) -> JobWords:
    """Returns what a job's annotations and the last lines of its raw log say of its end."""
    sentences = [each.message for each in annotations if _may_be_githubs(each)]
    errors = [found[1].strip() for line in log if (found := _ERROR.fullmatch(line.rstrip()))]
    sentences += _last_of(errors)
    return JobWords(lost=_has(_LOST, sentences), shutdown=_has(_SHUTDOWN, sentences), killed=_has(_KILLED, sentences))


def _may_be_githubs(annotation: JobAnnotation) -> bool:
    return annotation.level == "failure" and annotation.path == ".github" and not annotation.title


def _last_of(errors: Sequence[str]) -> list[str]:
    """Returns the errors at the end that are GitHub's or the runner's."""
    known = (_LOST, _SHUTDOWN, _KILLED, _CANCELED)
    last: list[str] = []
    for error in reversed(errors):
        if not any(sentence.fullmatch(error) for sentence in known):
            break
        last.append(error)
    return last


def _has(sentence: re.Pattern[str], texts: Iterable[str]) -> bool:
    return any(sentence.fullmatch(text.strip()) for text in texts)
