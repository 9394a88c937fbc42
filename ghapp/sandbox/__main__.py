"""The sandbox as a process: `python -m ghapp.sandbox --config sandbox.json --port 9100`.

Prints one JSON line when it is ready (`SandboxServer.describe`), and ends on SIGTERM or SIGINT.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
from contextlib import nullcontext
from pathlib import Path

import msgspec

from ghapp.sandbox.cluster.server import ClusterServer
from ghapp.sandbox.config import OrgConfig, SandboxConfig, pools_of, with_pods, with_rollout
from ghapp.sandbox.server import SandboxServer

RUNNERS = 300


def main() -> int:
    """Runs until SIGTERM or SIGINT; returns exit code 2 for an invalid configuration."""
    parser = argparse.ArgumentParser(prog="python -m ghapp.sandbox", description=__doc__)
    parser.add_argument("--config", help="JSON file in the shape of SandboxConfig; - reads it from stdin")
    parser.add_argument("--host", help="address to listen at")
    parser.add_argument("--port", type=int, help="port to listen at; 0 takes any")
    parser.add_argument("--webhook-url", help="where deliveries go")
    parser.add_argument("--rollout", action="store_true", help="one organization, with a blue/green pool beside others")
    parser.add_argument("--reruns", action="store_true", help="the App may run jobs again (actions: write)")
    parser.add_argument(
        "--kubeconfig", help="simulates a Kubernetes cluster, too, with a pool of ARC's and one of pods"
    )
    options = parser.parse_args()
    overrides = {"host": options.host, "port": options.port, "webhook_url": options.webhook_url}
    try:
        config = _config(options.config)
        config = msgspec.structs.replace(config, **{k: v for k, v in overrides.items() if v is not None})
        if options.rollout:
            pools = with_rollout(pools_of(RUNNERS))
            pools = with_pods(pools) if options.kubeconfig else pools
            config = msgspec.structs.replace(config, orgs=(OrgConfig(pools=pools),))
        if options.reruns:
            config = msgspec.structs.replace(config, permissions=config.permissions | {"actions": "write"})
        cluster = ClusterServer() if options.kubeconfig else None
        server = SandboxServer(config, cluster)
        if cluster is not None:
            cluster.kubeconfig(Path(options.kubeconfig))
    except (OSError, msgspec.DecodeError) as error:
        sys.stderr.write(f"the sandbox cannot start: {error}\n")
        return 2
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    with cluster or nullcontext(), server as sandbox:
        sys.stdout.write(json.dumps(sandbox.describe()) + "\n")
        sys.stdout.flush()
        stopped.wait()
    return 0


def _config(path: str | None) -> SandboxConfig:
    if path is None:
        return SandboxConfig()
    text = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    return msgspec.json.decode(text, type=SandboxConfig)


if __name__ == "__main__":
    sys.exit(main())
