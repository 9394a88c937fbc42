"""One job sweeps all due installations: many at once, each for itself."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

import jobs.context
from ghapp.sandbox.config import OrgConfig, PoolConfig, SandboxConfig
from ghapp.sandbox.server import SandboxServer
from ghapp.settings import Settings
from jobs.context import open_context
from jobs.installations.discover import discover_installations
from jobs.runners import due_sweeps, sweep
from jobs.runners.due_sweeps import AT_ONCE, RETRY_SECONDS, sweep_due_installations
from tests.stories.conftest import Clock
from tests.stories.processes import environment

ORGS = AT_ONCE + 3


@pytest.fixture(scope="module")
def sandbox():
    """A GitHub with more organizations than a job sweeps at once."""
    orgs = tuple(OrgConfig(login=f"org-{number}", pools=(PoolConfig(name="linux", size=2),)) for number in range(ORGS))
    with SandboxServer(SandboxConfig(orgs=orgs, quiet=True, ticking=False)) as server:
        yield server


@pytest.fixture
async def context(redis, redis_url, sandbox, tmp_path):
    sandbox.control.latency(seconds=0)
    sandbox.control.reset_account()
    (tmp_path / "ghapp.toml").write_text("")
    settings = Settings.read(environment(sandbox, redis_url, tmp_path / "ghapp.toml"))
    async with open_context(settings, Clock()) as context:
        await discover_installations(context)
        for each in await context.installations.all():
            await context.schedule.due_at(each.id, context.clock())
        yield context


async def swept(context):
    surveys = await context.runners.surveys([each.id for each in await context.installations.all()])
    return [each for each, survey in surveys.items() if survey.swept_at is not None]


async def test_one_job_sweeps_all_that_are_due_and_nothing_else(context):
    first, *others = [each.id for each in await context.installations.all()]
    await context.schedule.due_at(first, context.clock() + 60)
    assert await sweep_due_installations(context) == ORGS - 1
    assert await swept(context) == others
    assert await sweep_due_installations(context) == 0
    assert min((await context.schedule.all()).values()) >= context.clock() + 60, "each one has its next date"


@pytest.mark.parametrize(
    ("late", "next_in"),
    [(0.4, 59.6), (6.0, 54.0), (6.1, 60.0)],
    ids=["some tenths", "a tenth of the interval", "later"],
)
async def test_a_sweep_that_begins_a_little_late_does_not_put_off_the_next_one(context, late, next_in):
    (first, *_) = [each.id for each in await context.installations.all()]
    context.clock.pass_(late)
    await sweep_due_installations(context)
    assert await context.schedule.next(first) == pytest.approx(context.clock() + next_in, abs=0.001)


@pytest.mark.parametrize(
    ("late", "has_gap"), [(74.0, True), (59.0, False), (241.0, False)], ids=["late", "a little late", "blind"]
)
async def test_a_list_after_a_time_without_sweeps_leaves_a_gap_however_often_a_sweep_was_asked_for(
    context, late, has_gap
):
    """All workers hang for a minute or so: no verdict changes, but people are shown that nothing was seen meanwhile."""
    (first, *_) = [each.id for each in await context.installations.all()]
    began = context.clock()
    await sweep_due_installations(context)
    context.clock.pass_(60 + late / 2)
    await context.schedule.due_by(first, context.clock())  # "Sweep now", which waits as well
    context.clock.pass_(late / 2)
    await sweep_due_installations(context)
    survey = await context.runners.survey(first)
    assert survey.gaps == (((began, context.clock()),) if has_gap else ())


async def test_no_more_than_that_many_are_swept_at_once(context, monkeypatch):
    at_once, most = 0, 0

    async def sweep(_context, _installation, *, patience_seconds, **_options):
        nonlocal at_once, most
        assert patience_seconds == 0, "no place waits for another process"
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0.01)
        at_once -= 1

    monkeypatch.setattr(due_sweeps, "sweep_installation", sweep)
    assert await sweep_due_installations(context) == ORGS
    assert most == AT_ONCE


@pytest.mark.parametrize(("large", "together"), [(2, 1), (3, AT_ONCE)], ids=["large ones", "one runner less"])
async def test_the_records_of_large_installations_are_in_memory_one_after_the_other(
    context, monkeypatch, large, together
):
    monkeypatch.setattr(jobs.context, "LARGE", large)
    at_once, most = Counter(), Counter()

    def counted(name):
        function = getattr(sweep, name)

        async def count(*arguments, **options):
            at_once.update(["records"])
            most["records"] = max(most["records"], at_once["records"])
            most[name] += 1
            await asyncio.sleep(0.01)
            try:
                return await function(*arguments, **options)
            finally:
                at_once.subtract(["records"])

        monkeypatch.setattr(sweep, name, count)

    counted("record_list")
    counted("plan_after_sweep")
    assert await sweep_due_installations(context) == ORGS
    assert len(await swept(context)) == ORGS
    assert most == {"records": together, "record_list": ORGS, "plan_after_sweep": ORGS}


async def test_a_sweep_that_fails_is_counted_and_stops_no_other(context, monkeypatch):
    broken, *others = [each.id for each in await context.installations.all()]
    sweep_installation = due_sweeps.sweep_installation

    async def sweep(context, installation, **options):
        if installation == broken:
            raise RuntimeError("unexpected")
        return await sweep_installation(context, installation, **options)

    monkeypatch.setattr(due_sweeps, "sweep_installation", sweep)
    assert await sweep_due_installations(context) == ORGS
    assert await swept(context) == others
    assert (await context.counters.all())['ghapp_jobs_failed_total{work="sweep"}'] == 1
    assert await context.schedule.next(broken) == context.clock() + RETRY_SECONDS


async def test_a_sweep_that_takes_too_long_is_stopped_and_the_others_are_recorded(context, monkeypatch):
    slow, *others = [each.id for each in await context.installations.all()]
    sweep_installation = due_sweeps.sweep_installation

    async def sweep(context, installation, **options):
        if installation == slow:
            await asyncio.sleep(3600)
        return await sweep_installation(context, installation, **options)

    monkeypatch.setattr(due_sweeps, "sweep_installation", sweep)
    monkeypatch.setattr(due_sweeps, "SWEEP_TIMEOUT_SECONDS", due_sweeps.ENDING_SECONDS + 4.0)
    assert await sweep_due_installations(context) == ORGS
    assert await swept(context) == others
    assert (await context.counters.all())['ghapp_jobs_failed_total{work="sweep"}'] == 1


async def test_an_installation_that_another_process_sweeps_is_left_to_it(context):
    first = (await context.installations.all())[0].id
    async with context.locks.acquire("sweep", first):
        assert await sweep_due_installations(context) == ORGS
        assert first not in await swept(context)
    assert await context.schedule.next(first) == context.clock() + RETRY_SECONDS


async def test_a_job_begins_no_sweep_after_its_time(context, monkeypatch):
    monkeypatch.setattr(due_sweeps, "TAKING_SECONDS", 0.0)
    assert await sweep_due_installations(context) == 0
    assert await swept(context) == []


async def test_the_date_that_a_sweep_has_set_is_kept_while_its_job_goes_on(context, monkeypatch):
    """What a large sweep does after it has set the date of the next one takes seconds."""
    (large, *_) = [each.id for each in await context.installations.all()]
    put_off, looked, due = context.schedule.put_off, asyncio.Event(), context.clock() + 0.1

    async def sweep(_context, installation, **_options):
        await context.schedule.due_at(installation, due if installation == large else context.clock() + 60)
        if installation == large:
            await looked.wait()

    async def counted(dates, until):
        await put_off(dates, until)
        looked.set()

    monkeypatch.setattr(due_sweeps, "sweep_installation", sweep)
    monkeypatch.setattr(due_sweeps, "RETRY_SECONDS", 0.5)
    monkeypatch.setattr(type(context.schedule), "put_off", staticmethod(counted))
    async with asyncio.timeout(20):
        await sweep_due_installations(context)
    assert await context.schedule.next(large) == due


async def test_a_long_sweep_is_not_due_while_it_runs(context, monkeypatch):
    (slow, *_) = [each.id for each in await context.installations.all()]
    going_on, may_end = asyncio.Event(), asyncio.Event()
    sweep_installation, put_off = due_sweeps.sweep_installation, context.schedule.put_off

    async def sweep(context, installation, **options):
        if installation == slow:
            await may_end.wait()
        return await sweep_installation(context, installation, **options)

    async def counted(dates, until):
        await put_off(dates, until)
        if [*dates] == [slow]:
            going_on.set()

    monkeypatch.setattr(due_sweeps, "sweep_installation", sweep)
    monkeypatch.setattr(due_sweeps, "RETRY_SECONDS", 0.5)
    monkeypatch.setattr(type(context.schedule), "put_off", staticmethod(counted))
    job = asyncio.create_task(sweep_due_installations(context))
    await going_on.wait()
    assert await context.schedule.next(slow) == context.clock() + 0.5
    may_end.set()
    await job
    assert await context.schedule.next(slow) >= context.clock() + 60, "its own date is kept"
