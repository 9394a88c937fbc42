"""An error of ghapp itself ends no sweep without a record: knowledge stays, the reason is shown, and sweeps go on."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest
from structlog.testing import capture_logs

from ghapp.errors import StoreUnavailableError
from ghapp.github.installation_client import InstallationClient
from ghapp.runners.verdict import State
from jobs.runners import confirm, due_sweeps, sweep
from jobs.runners.confirm import confirm_installation
from jobs.runners.due_sweeps import sweep_due_installations
from jobs.runners.sweep import RECORDING_SECONDS, sweep_installation
from tests.stories.runners.test_main_job import state_of
from tests.support import commands

RUNNERS = 250
"""Three pages: the second and third are read at the same time."""

ERRORS = [
    ValueError("invalid literal for int()"),
    KeyError("total_count"),
    RuntimeError("unexpected"),
    RecursionError("maximum recursion depth exceeded"),
    ExceptionGroup("several", [ValueError("one"), KeyError("two")]),
]


def failing(error, pages=range(100)):
    """A `list_runners` that raises for these pages."""
    list_runners = InstallationClient.list_runners

    async def fail(self, page, etag):
        if page in pages:
            raise error
        return await list_runners(self, page, etag)

    return fail


@pytest.mark.parametrize("pages", [{1}, {2, 3}], ids=["first page", "other pages"])
@pytest.mark.parametrize("error", ERRORS, ids=lambda each: type(each).__name__)
async def test_the_failure_is_recorded_logged_once_and_followed_by_the_next_sweep(story, monkeypatch, error, pages):
    async with story(runners=RUNNERS) as app:
        await app.settle()
        before = await app.context.runners.survey(app.installation)
        await app.pass_(60)
        with monkeypatch.context() as broken, capture_logs() as lines:
            broken.setattr(InstallationClient, "list_runners", failing(error, pages))
            assert await sweep_due_installations(app.context) == 1
            assert await sweep_due_installations(app.context) == 0, "it is not due again at once"
        after = await app.context.runners.survey(app.installation)
        assert (after.failure, after.failing_since) == ("InternalError", app.clock())
        assert (after.swept_at, after.total) == (before.swept_at, RUNNERS)
        assert set(await app.states()) == {State.HEALTHY}, "the last list still counts"
        (failure,) = [line for line in lines if line.get("exc_info")]
        assert (failure["event"], failure["error"]) == ("sweep failed", type(error).__name__)
        assert failure["exc_info"] is error
        assert await app.context.schedule.next(app.installation) >= app.clock() + 60
        await app.pass_(60)
        assert await sweep_due_installations(app.context) == 1
        assert (await app.context.runners.survey(app.installation)).failing_since is None


async def test_a_list_that_takes_longer_than_its_job_may_is_recorded_before_the_job_ends(story, monkeypatch):
    async with story() as app:
        await app.settle()
        await app.pass_(60)
        monkeypatch.setattr(due_sweeps, "SWEEP_TIMEOUT_SECONDS", RECORDING_SECONDS + due_sweeps.ENDING_SECONDS + 0.2)
        with monkeypatch.context() as slow, capture_logs() as lines:
            slow.setattr(InstallationClient, "list_runners", lambda *_: asyncio.sleep(60))
            assert await sweep_due_installations(app.context) == 1
        survey = await app.context.runners.survey(app.installation)
        assert (survey.failure, survey.failing_since) == ("GitHubUnavailable", app.clock())
        (failure,) = [line for line in lines if line["event"] == "sweep failed"]
        assert (failure["error"], failure["why"]) == ("TimeoutError", "the list took longer than a sweep may")
        monkeypatch.undo()
        await app.pass_(60)
        assert await sweep_due_installations(app.context) == 1
        assert (await app.context.runners.survey(app.installation)).failing_since is None


async def test_the_doctor_names_it_and_its_fix(story, monkeypatch):
    async with story() as app:
        await app.settle()
        with monkeypatch.context() as broken:
            broken.setattr(InstallationClient, "list_runners", failing(ValueError("no")))
            assert (await sweep_installation(app.context, app.installation)).flaw == "InternalError"
        text = partial(commands.ghapp, **app.environ, COLUMNS="400")("doctor").stdout
        assert "InternalError" in text
        assert "`sweep failed` in the worker's log" in text


async def test_a_nested_list_is_an_answer_that_cannot_be_used(story):
    async with story() as app:
        await app.settle()
        body = '{"total_count": 12, "runners": [], "more": ' + "[" * 100_000
        app.sandbox.control.fault(match="actions/runners", status=200, body=body)
        assert (await sweep_installation(app.context, app.installation)).flaw == "GitHubUnavailable"
        app.sandbox.control.no_faults()
        assert (await sweep_installation(app.context, app.installation)).flaw == ""


async def test_an_error_while_the_list_is_recorded_is_recorded_too(story, monkeypatch):
    async with story() as app:
        await app.settle()
        await app.pass_(60)
        app.sandbox.control.lose("acme", count=1)

        async def fail(*_args, **_options):
            raise KeyError("unexpected")

        with monkeypatch.context() as broken:
            broken.setattr(sweep, "record_list", fail)
            assert (await sweep_installation(app.context, app.installation)).flaw == "InternalError"
        assert (await sweep_installation(app.context, app.installation)).flaw == ""


async def test_an_unavailable_redis_is_no_internal_error(story, monkeypatch):
    async with story(runners=RUNNERS) as app:
        await app.settle()
        with monkeypatch.context() as broken:
            broken.setattr(InstallationClient, "list_runners", failing(StoreUnavailableError("no answer"), {2, 3}))
            with pytest.raises(StoreUnavailableError, match="no answer"):
                await sweep_installation(app.context, app.installation)
        assert (await app.context.runners.survey(app.installation)).failing_since is None


async def test_a_confirmation_that_fails_confirms_nothing_is_logged_once_and_repeated(story, monkeypatch):
    async with story() as app:
        await app.settle()
        (lost,) = app.sandbox.control.lose("acme", count=1)
        await app.pass_(60)
        await sweep_installation(app.context, app.installation)
        await app.pass_(30)

        async def fail(*_args):
            raise ValueError("unexpected")

        with monkeypatch.context() as broken, capture_logs() as lines:
            broken.setattr(confirm, "get_each", fail)
            assert await confirm_installation(app.context, app.installation) == 0
        (failure,) = [line for line in lines if line.get("exc_info")]
        assert (failure["event"], failure["error"]) == ("not confirmed", "ValueError")
        assert (await app.context.counters.all())['ghapp_jobs_failed_total{work="confirm"}'] == 1
        assert await state_of(app, lost) is State.SUSPECT
        assert await confirm_installation(app.context, app.installation) == 1
        assert await state_of(app, lost) is State.INVALIDATED
