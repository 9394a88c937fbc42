"""Deliveries become sightings."""

from __future__ import annotations

import msgspec

from ghapp.github.deliveries import encode, parse
from ghapp.health.verdict import Reason, State, judge
from jobs.inbox import drain_inbox
from jobs.sweep import sweep_installation


async def deliver(it, guid, status, runner, job_id=1):
    body = {
        "action": status,
        "installation": {"id": it.installation},
        "repository": {"full_name": "acme/api"},
        "workflow_job": {
            "id": job_id,
            "status": status,
            "labels": ["linux-4vcpu"],
            "runner_id": None if status == "queued" else runner.id,
            "runner_name": None if status == "queued" else runner.name,
        },
    }
    facts = encode(parse("workflow_job", msgspec.json.encode(body), "application/json"))
    await it.house.inbox.keep(guid, "workflow_job", facts)


async def look(it, runner_id):
    evidence = (await it.house.runners.some(it.installation, [runner_id]))[runner_id]
    survey = await it.house.runners.survey(it.installation)
    return judge(evidence, survey, it.clock(), it.settings.of("acme").evidence)


async def test_an_ephemeral_runner_that_is_gone_after_its_job_is_retired_and_not_replaced(story):
    async with story() as it:
        await sweep_installation(it.house, it.installation)
        it.clock.pass_(200)
        runner = next(iter((await it.house.runners.all(it.installation)).values()))
        await deliver(it, "1", "queued", runner)
        await deliver(it, "2", "in_progress", runner)
        assert await drain_inbox(it.house) == 2
        assert (await look(it, runner.id)).reason is Reason.BUSY
        assert [job.status for job in await it.house.demand.all(it.installation)] == ["running"]

        await deliver(it, "3", "completed", runner)
        await drain_inbox(it.house)
        it.sandbox.control.lose("acme", ids=[runner.id])
        account = await sweep_installation(it.house, it.installation)
        assert account is not None
        assert account.suspects == 0
        verdict = await look(it, runner.id)
        assert (verdict.state, verdict.reason) == (State.RETIRED, Reason.JOB_COMPLETED)
        assert await it.house.demand.all(it.installation) == []


async def test_a_repeated_delivery_has_no_second_effect(story):
    async with story() as it:
        await sweep_installation(it.house, it.installation)
        runner = next(iter((await it.house.runners.all(it.installation)).values()))
        await deliver(it, "1", "in_progress", runner)
        await deliver(it, "1", "in_progress", runner)
        assert await drain_inbox(it.house) == 1
        await deliver(it, "1", "in_progress", runner)
        assert await drain_inbox(it.house) == 0
        assert await it.house.inbox.lag() == 0


async def test_a_job_whose_end_is_told_before_its_beginning_is_over(story):
    async with story() as it:
        await sweep_installation(it.house, it.installation)
        runner = next(iter((await it.house.runners.all(it.installation)).values()))
        await deliver(it, "2", "completed", runner)
        await drain_inbox(it.house)
        await deliver(it, "1", "queued", runner)
        await drain_inbox(it.house)
        assert await it.house.demand.all(it.installation) == []
        assert (await look(it, runner.id)).reason is Reason.ONLINE
