"""`fast_timings.py ROLE` runs `ghapp ROLE` with short time-outs for processes and servers that do not answer.

For stories that would spend most of their time waiting for that. What follows when a wait is over is what always
follows; that the real waits fit into each other, and into what is promised, `test_patience` shows.
"""

from __future__ import annotations

import sys
from importlib import import_module

LOCK_SECONDS, CALL_SECONDS = 3.0, 4.0
WAITS = {
    "worker": {
        "ghapp.store.locks": {"LEASE_SECONDS": LOCK_SECONDS, "OUTLIVING_SECONDS": LOCK_SECONDS + 1},
        "ghapp.queue.worker": {
            "MAINTENANCE_SECONDS": 1,
            "WORKER_TTL_SECONDS": 16,  # RQ looks up from its queues after this less 15
            "MONITORING_SECONDS": 1,
            "HEARTBEAT_SECONDS": 4,
            "FINISH_SECONDS": 2.0,
        },
    },
    "clock": {"jobs.scheduler": {"HEARTBEAT_SECONDS": 1.0}},
    "watch": {
        "ghapp.cluster.transport": {"HEAD_SECONDS": 2.0, "CALL_SECONDS": CALL_SECONDS},
        "jobs.pods.watch": {"LOCK_SECONDS": LOCK_SECONDS, "RETRY_SECONDS": 0.5, "BEAT_SECONDS": 1.0},
    },
}
"""By role and module, in the order of the changes: a module that imports a name later gets the value set here."""

DEFAULTS = {
    "worker": ("ghapp.store.locks", "Locks", LOCK_SECONDS),
    "watch": ("ghapp.cluster.transport", "ClusterTransport", CALL_SECONDS),
}
"""The default of a class for such a wait."""


def shorten(role: str) -> None:
    """Change what a role waits for, before anything of it runs."""
    for module, waits in WAITS.get(role, {}).items():
        for name, seconds in waits.items():
            assert hasattr(import_module(module), name), f"{module} has no {name} any more"
            setattr(import_module(module), name, seconds)
    if role in DEFAULTS:
        module, name, seconds = DEFAULTS[role]
        getattr(import_module(module), name).__init__.__defaults__ = (seconds,)


if __name__ == "__main__":
    shorten(sys.argv[1])
    import_module("ghapp.cli").main()
