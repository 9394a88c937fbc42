"""GitHub's and the runner's sentences about the end of a job: whole, and never the workflow's own output."""

from __future__ import annotations

import pytest

from ghapp.deaths.github_words import JobAnnotation, JobWords, read_words

LOST = "The self-hosted runner: vm-1 lost communication with the server. Verify the machine is running and has a healthy network connection. Anything in your workflow that terminates the runner process, starves it for CPU/Memory, or blocks its network access can cause this error."
SHUTDOWN = "The runner has received a shutdown signal. This can happen when the runner service is stopped, or a manually started runner is canceled."
KILLED = "Process completed with exit code 143."
CANCELED = "The operation was canceled."
AT = "2026-07-14T12:00:00.0000000Z "


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (LOST, JobWords(lost=True)),
        ("The self-hosted runner lost communication with the server.", JobWords(lost=True)),
        (f"{SHUTDOWN}\n", JobWords(shutdown=True)),
        ("The runner has received a shutdown signal.", JobWords(shutdown=True)),
        (KILLED, JobWords(killed=True)),
        (CANCELED, JobWords()),
        ("AssertionError: server received a shutdown signal", JobWords()),
        ("proxy lost communication with the server", JobWords()),
        (f"Error: {LOST}", JobWords()),
        ("The self-hosted runner lost communication with the server. See the test's log.", JobWords()),
        ("Process completed with exit code 1.", JobWords()),
        ("The run was canceled by @mona.", JobWords(stopped=True)),
        ("The run was canceled by @mona-bot[bot]", JobWords(stopped=True)),
        ('The job was canceled because "ubuntu_3_8" failed.', JobWords(stopped=True)),
        ("Canceling since a higher priority waiting request for 'deploy main' exists", JobWords(stopped=True)),
        ("The job has exceeded the maximum execution time of 45m0s", JobWords(stopped=True)),
        (
            "The job running on runner vm-1 has exceeded the maximum execution time of 30 minutes.",
            JobWords(stopped=True),
        ),
        ("AssertionError: The run was canceled by @mona.", JobWords()),
    ],
)
def test_a_sentence_of_githubs_is_recognized_as_a_whole(message, words):
    assert read_words([JobAnnotation("another"), JobAnnotation(message)]) == words


def test_each_step_that_was_killed_counts_once_in_the_annotations_and_in_the_log():
    killed = [JobAnnotation(KILLED)] * 2
    assert read_words(killed, [f"{AT}##[error]{KILLED}"]).killed == 2
    assert read_words([], [f"{AT}##[error]{KILLED}"] * 3).killed == 3


def test_failures_are_explained_by_as_many_killed_steps():
    two = JobWords(killed=2)
    assert [two.explain_failures(failed) for failed in (0, 2, 3)] == [True, True, False]


@pytest.mark.parametrize("changes", [{"level": "warning"}, {"path": "src/main.rs"}, {"title": "Tests"}])
def test_an_annotation_that_github_does_not_write_so_proves_nothing(changes):
    assert read_words([JobAnnotation(LOST)._replace(**changes)]) == JobWords()


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ([f"{AT}##[error]{SHUTDOWN}"], JobWords(shutdown=True)),
        ([f"{AT}##[error]{SHUTDOWN}", f"{AT}Cleaning up", f"{AT}##[error]{CANCELED}\r"], JobWords(shutdown=True)),
        ([f"{AT}##[error]{SHUTDOWN}", f"{AT}##[error]{KILLED}"], JobWords(shutdown=True, killed=True)),
        ([f"\ufeff{AT}##[error]{SHUTDOWN}"], JobWords(shutdown=True)),
        ([f"{AT}##[error]{SHUTDOWN}", f"{AT}##[error]1 test failed"], JobWords()),
        ([f"{AT}{SHUTDOWN}"], JobWords()),
        ([f"{AT}echo ##[error]{SHUTDOWN}"], JobWords()),
        ([f"{AT}##[error]AssertionError: {SHUTDOWN}"], JobWords()),
        ([f"{AT}##[error]{CANCELED}"], JobWords()),
        ([], JobWords()),
    ],
)
def test_in_a_raw_log_only_the_last_errors_count(log, words):
    assert read_words([JobAnnotation(CANCELED)], log) == words
