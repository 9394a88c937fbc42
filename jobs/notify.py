"""Bring one event to its pool's url, signed, as often as it takes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from ghapp.errors import ReplacerUnavailableError
from ghapp.health import seen
from ghapp.health.evidence import Evidence
from ghapp.log import logger
from ghapp.replace.cloudevents import post
from jobs.house import House, furnished, open_house

log = logger(__name__)

REPLACE = "ghapp.runner.replace.v1"

GIVEN_UP_SECONDS = 7 * 24 * 3600.0
"""As long as a loss waits. A url that is away for good must not fill the outbox."""


async def notify(event_id: str) -> None:
    """The job: post one event of the outbox. A failure is raised, and RQ tries again with backoff."""
    async with open_house(furnished()) as house:
        await notify_pool(house, event_id)


async def notify_pool(house: House, event_id: str) -> None:
    """Post it; a replace event that was accepted is recorded on its runner before it leaves the outbox.

    Raises:
        ReplacerUnavailableError: the url did not answer 2xx; after a week of that it is given up.
    """
    outgoing = await house.events.outgoing(event_id)
    if outgoing is None:
        return  # accepted before
    event = msgspec.json.decode(outgoing.event)
    installation = await house.installations.one(outgoing.installation)
    rules = house.settings.pools_of(installation.org) if installation is not None else ()
    rule = next((each for each in rules if each.name == outgoing.pool), None)
    if rule is None or rule.url is None or rule.secret_env is None:
        may_be_renamed = rule is None and any(each.name == outgoing.pool for each in house.settings.pools)
        if installation is not None and may_be_renamed and not _is_too_old(house, event):
            return  # the configuration knows this pool by its org's other name; the clock asks again
        log.warning("event has no url any more", event_id=event_id, pool=outgoing.pool)
        await house.events.accepted(event_id)
        return
    try:
        await post(rule.url, house.settings.pool_secrets[rule.secret_env], event_id, outgoing.event, time.time())
    except ReplacerUnavailableError as error:
        if not _is_too_old(house, event):
            raise
        log.warning("event given up", event_id=event_id, type=event["type"], pool=outgoing.pool, why=str(error))
        await house.events.accepted(event_id)
        return
    if event["type"] == REPLACE:
        await _record(house, outgoing.installation, int(event["data"]["runner_id"]), event_id)
    await house.events.accepted(event_id)


def _is_too_old(house: House, event: Mapping[str, Any]) -> bool:
    return house.clock() - datetime.fromisoformat(event["time"]).timestamp() > GIVEN_UP_SECONDS


async def _record(house: House, installation: int, runner_id: int, event_id: str) -> None:
    at = house.clock()

    def fold(evidence: Evidence | None) -> Evidence | None:
        if evidence is None or evidence.event_id != event_id:
            return evidence  # it came back meanwhile, and this request is history
        return seen.replaced(evidence, at)

    await house.runners.revise(installation, {runner_id: fold})
