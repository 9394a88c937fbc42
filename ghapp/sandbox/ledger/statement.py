"""The ledger as the control API shows it."""

from __future__ import annotations

from typing import Any

import msgspec

from ghapp.sandbox.deliveries import Deliveries
from ghapp.sandbox.ledger.ledger import Ledger, Loss


def statement(seen: Ledger, deliveries: Deliveries) -> dict[str, Any]:
    """Returns everything since the last reset; times in epoch seconds, by the sandbox's clock.

    `since`
        When it began.
    `calls`, by method and path template, and `by_org`
        Each `{"total", "counted", "not_modified", "refused", "unanswered"}`.
    `pressure`, by organization
        `{"most_in_flight", "most_points_a_minute"}`, which GitHub's secondary limits measure.
    `losses`
        Each lost registration and what was done about it, with `seconds_to_replace` from the loss to its replace event.
    `unnoticed`
        `org/id` of losses about which nothing was done, and whose runners have neither returned nor ended.
    `wrongful_removals`
        Working runners that were removed, by DELETE or by a replace event.
    `wrongful_replacements`
        Replace events for runners whose registration existed.
    `replacements`
        `{"asked", "repeated", "rejected", "doubled": {"org/id": how often}}`.
    `deliveries`
        `{"sent", "failed", "waiting", "dropped", "undelivered", "by_event"}`: attempts that succeeded or failed; not
        yet made; deliveries discarded without a log entry; GUIDs in the log without a successful attempt.
    """
    sent, failed = deliveries.sent, deliveries.failed
    return {
        "since": seen.since,
        "calls": {operation: msgspec.to_builtins(calls) for operation, calls in seen.calls.items()},
        "by_org": {org: msgspec.to_builtins(calls) for org, calls in seen.by_org.items()},
        "pressure": {
            org: {"most_in_flight": each.most_in_flight, "most_points_a_minute": each.most_points_a_minute}
            for org, each in seen.pressure.items()
        },
        "losses": [_loss(loss) for loss in seen.losses],
        "unnoticed": [f"{loss.org}/{loss.runner_id}" for loss in seen.losses if loss.unnoticed],
        "wrongful_removals": msgspec.to_builtins(seen.wrongful_removals),
        "wrongful_replacements": msgspec.to_builtins(seen.wrongful_replacements),
        "replacements": {
            "asked": seen.asked.total(),
            "repeated": seen.repeated,
            "rejected": seen.rejected,
            "doubled": seen.doubled(),
        },
        "deliveries": {
            "sent": sent.total(),
            "failed": failed.total(),
            "waiting": deliveries.waiting,
            "dropped": deliveries.dropped,
            "undelivered": deliveries.undelivered(),
            "by_event": {event: {"sent": sent[event], "failed": failed[event]} for event in sent | failed},
        },
    }


def _loss(loss: Loss) -> dict[str, Any]:
    return {**msgspec.to_builtins(loss), "seconds_to_replace": loss.seconds_to_replace}
