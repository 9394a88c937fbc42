"""A week of a busy fleet, lived fast: what is kept has bounds."""

from __future__ import annotations

from collections import Counter

import msgspec

from ghapp.github.deliveries import encode, parse
from ghapp.runners.evidence import MOST_BLIND_SPANS
from ghapp.store import keys
from jobs.deliveries.inbox import drain_inbox
from jobs.runners.sweep import sweep_installation
from tests.stories.conftest import POOL

RUNNERS = 10
TURNS = 12


async def a_day_passes(app, day):
    for turn in range(TURNS):
        await app.pass_(86_400 / TURNS)
        await the_fleet_turns_over(app, day * TURNS + turn)
        await sweep_installation(app.context, app.installation)


async def the_fleet_turns_over(app, number):
    """Every runner runs its one job, ends, and another comes; deliveries report it."""
    registered = list(app.sandbox.world.orgs["acme"].fleet.roster.registered.values())
    app.sandbox.control.lose("acme", ids=[each.id for each in registered])
    app.sandbox.control.register("acme", pool=POOL, count=RUNNERS)
    for each in registered:
        for status in ("in_progress", "completed"):
            await deliver(app, f"{number}-{each.id}-{status}", status, each)
    await drain_inbox(app.context)


async def deliver(app, guid, status, runner):
    body = {
        "action": status,
        "installation": {"id": app.installation},
        "repository": {"full_name": "acme/api"},
        "workflow_job": {
            "id": runner.id,
            "status": status,
            "labels": [POOL],
            "runner_id": runner.id,
            "runner_name": runner.name,
        },
    }
    facts = encode(parse("workflow_job", msgspec.json.encode(body), "application/json"))
    await app.context.inbox.keep(guid, "workflow_job", facts)


async def sizes(redis):
    """Everything that does not expire by itself: key → how many entries, or bytes.

    All hashes of an installation's names count as one: which of the 256 small ones has a name is chance.
    """
    found = Counter()
    async for key in redis.scan_iter(count=1000):
        if await redis.ttl(key) != -1:
            continue
        kind = key.rpartition(b":")[0] if b":names:" in key else key
        match await redis.type(key):
            case b"hash":
                found[kind] += await redis.hlen(key)
            case b"stream":
                found[kind] += await redis.xlen(key)
            case b"zset":
                found[kind] += await redis.zcard(key)
            case b"set":
                found[kind] += await redis.scard(key)
            case b"list":
                found[kind] += await redis.llen(key)
            case _:
                found[kind] += await redis.strlen(key)
    return found


async def test_after_two_days_nothing_grows_any_more(story):
    async with story(runners=RUNNERS) as app:
        await sweep_installation(app.context, app.installation)
        for day in range(3):
            await a_day_passes(app, day)
        settled = await sizes(app.context.redis)
        for day in range(3, 7):
            await a_day_passes(app, day)
        week = await sizes(app.context.redis)
        assert settled.keys() == week.keys(), "no key for each day"
        grown = {key: (settled[key], size) for key, size in week.items() if size > 1.1 * settled[key] + 64}
        survey = keys.survey(app.installation).encode()
        assert grown.pop(survey, (0, 0))[1] <= 24 * MOST_BLIND_SPANS, "the spans without lists of a week"
        assert grown == {}
        assert app.account()["wrongful_removals"] == []
