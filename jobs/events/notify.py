"""Jobs of the previous version, which enqueued one for each event. The clock delivers events now."""

from __future__ import annotations

from ghapp.store.stores import open_stores
from jobs.context import configured
from jobs.events.deliver_event import EventDelivery


async def notify(event_id: str) -> None:
    """The job: deliver one event while no clock of this version does, as in a rollout or after a roll-back.

    Raises:
        ReplacerUnavailableError: the URL did not answer 2xx.
    """
    settings = configured()
    async with open_stores(str(settings.redis_url), settings.named) as stores:
        await EventDelivery(settings, stores).deliver_if_free(event_id)
