"""One job works for many installations: some at once, each for itself."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from ghapp.queue.jobs import MOST_INSTALLATIONS, JobName
from jobs import each_installation
from jobs.each_installation import AT_ONCE, ENDING_SECONDS, run_each

IDS = range(1, MOST_INSTALLATIONS + 1)
FAILED = 'ghapp_jobs_failed_total{work="report_queue"}'


class Work:
    """Notes for which installations it is done, and how many of them at once."""

    def __init__(self, fails=(), hangs=()):
        self.done, self.at_once, self.most = [], 0, 0
        self._fails, self._hangs = fails, hangs

    async def __call__(self, _context, installation):
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await asyncio.sleep(3600 if installation in self._hangs else 0.001)
        self.at_once -= 1
        if installation in self._fails:
            raise RuntimeError("unexpected")
        self.done.append(installation)


async def test_it_is_done_for_each_of_them_and_for_ten_at_once(story):
    work = Work()
    async with story() as app:
        await run_each(app.context, JobName.QUEUE, work, IDS)
        assert FAILED not in await app.context.counters.all()
    assert sorted(work.done) == [*IDS]
    assert work.done != [*IDS], "in random order"
    assert work.most == AT_ONCE


async def test_one_that_fails_is_logged_and_counted_and_stops_no_other(story):
    work = Work(fails={7})
    async with story() as app:
        with capture_logs() as lines:
            await run_each(app.context, JobName.QUEUE, work, IDS)
        assert (await app.context.counters.all())[FAILED] == 1
    assert sorted(work.done) == [each for each in IDS if each != 7]
    (line,) = lines
    assert (line["event"], line["work"], line["error"]) == ("job failed", JobName.QUEUE.value, "RuntimeError")
    assert line["exc_info"] is not None, "an unexpected error is logged with its traceback"


async def test_one_that_takes_too_long_is_stopped_before_the_job_is(story, monkeypatch):
    monkeypatch.setattr(each_installation, "TIMEOUT_SECONDS", ENDING_SECONDS + 0.5)
    work = Work(hangs={7, 8})
    async with story() as app:
        with capture_logs() as lines:
            await run_each(app.context, JobName.QUEUE, work, IDS)
        assert (await app.context.counters.all())[FAILED] == 2
    assert sorted(work.done) == [each for each in IDS if each not in (7, 8)]
    assert {line["why"] for line in lines} <= {"it took longer than 0 s", "it took longer than 1 s"}


async def test_those_for_which_no_time_is_left_are_deferred_and_do_not_count_as_failed(story, monkeypatch):
    monkeypatch.setattr(each_installation, "TIMEOUT_SECONDS", ENDING_SECONDS + 2.0)  # in which ten begin on any machine
    work = Work(hangs=IDS)
    async with story() as app:
        with capture_logs() as lines:
            await run_each(app.context, JobName.QUEUE, work, IDS)
        assert (await app.context.counters.all())[FAILED] == AT_ONCE
    assert [line["event"] for line in lines] == ["job failed"] * AT_ONCE + ["installations deferred"]
    assert (lines[-1]["work"], lines[-1]["count"]) == (JobName.QUEUE.value, len(IDS) - AT_ONCE)


async def test_an_error_of_a_job_for_one_installation_is_that_of_the_job(story):
    async with story() as app:
        with pytest.raises(RuntimeError):
            await run_each(app.context, JobName.QUEUE, Work(fails={7}), [7])
