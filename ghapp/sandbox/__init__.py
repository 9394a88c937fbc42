"""A simulated GitHub with a simulated fleet, for trying ghapp and for its tests. It imports nothing of ghapp.

`server` runs everything, on a `world` that holds all state. `rest` is GitHub's REST API, `pages` and `app_pages` are
its web pages, `webhook_events` and `deliveries` its webhooks, `documents` the JSON of all of them. `fleet` has the
runners and their jobs, `runner_list` what GitHub shows of them, `controller` what replaces them, `fleet_pods` their
pods in the simulated `cluster`. `control` has what a person or a test can do to the world, `faults` how GitHub fails,
`ledger` what the client did. Controls that only tests need of the cluster are in `tests/support/cluster.py`.
"""

from ghapp.sandbox.config import OrgConfig, Pace, PoolConfig, SandboxConfig, pools_of
from ghapp.sandbox.server import SandboxServer

__all__ = ["OrgConfig", "Pace", "PoolConfig", "SandboxConfig", "SandboxServer", "pools_of"]
