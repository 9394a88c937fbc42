"""Times of a job on a terminal."""

from __future__ import annotations

import pytest
from rich.console import Console

from ghapp.terminal import job_tables
from tests.terminal.test_narrow import WAITING

AT = "2020-01-15T08:00:00Z"


@pytest.mark.parametrize(
    "change",
    [
        {"why": WAITING["why"] | {"since": AT}},
        {"why": None, "summary": None, "state": "running", "started_at": AT},
        {"why": None, "summary": None, "state": "over", "ended_at": AT, "conclusion": "failure"},
    ],
    ids=["queued", "running", "over"],
)
def test_why_writes_times_as_all_texts(change):
    console = Console(width=400)
    with console.capture() as captured:
        console.print(job_tables.job_explanations([WAITING | change]))
    shown = captured.get()
    assert "2020-01-15 08:00:00 UTC" in shown
    assert AT not in shown
