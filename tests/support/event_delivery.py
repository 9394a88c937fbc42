"""Delivers one event of the outbox, with the look that a worker takes before."""

from jobs.events.deliver_event import EventDelivery
from jobs.remediation.remediate import remediate_runner


async def deliver_event(context, event_id):
    """Raises ReplacerUnavailableError: the URL did not answer 2xx."""
    looks = []
    delivery = EventDelivery(context.settings, context, lambda *runner: looks.append(runner), context.clock)
    await delivery.deliver(event_id)
    for runner in looks:
        await remediate_runner(context, *runner)
        await delivery.deliver(event_id)
