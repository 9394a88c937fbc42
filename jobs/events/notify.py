"""Jobs of the previous version, which enqueued one for each event. The clock delivers events now."""

from __future__ import annotations

from ghapp.store.connect import connect
from jobs.context import configured
from jobs.events.deliver_event import EventDelivery


async def notify(event_id: str) -> None:
    """The job: deliver one event while no clock of this version does, as in a rollout or after a roll-back.

    Raises:
        ReplacerUnavailableError: the URL did not answer 2xx.
    """
    settings = configured()
    redis = connect(str(settings.redis_url))
    try:
        await EventDelivery(settings, redis).deliver_if_free(event_id)
    finally:
        await redis.aclose()
