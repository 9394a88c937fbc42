"""The simulated GitHub and the simulated cluster of `ghapp up --sandbox`: one process, its controls, its policy."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ghapp.errors import GhappError
from ghapp.local.watchdog import LAST, PYTHON, Watchdog, end, uninterrupted
from ghapp.settings.settings import CLUSTER, VARIABLES

START_SECONDS = 20.0
CALL_SECONDS = 5.0
KUBECONFIG = "kubeconfig"

KEPT_VARIABLES = {"GHAPP_LISTEN", "GHAPP_LOG_FORMAT"}
"""The only variables of `ghapp` that the sandbox takes from its caller."""

CERTIFICATE_VARIABLES = {"SSL_CERT_FILE", "SSL_CERT_DIR"}
"""Besides proxies, what the HTTP client reads. All addresses of the sandbox are on this machine, without TLS."""

POLICY = """
[sweep]
interval_seconds = 4
[evidence]
confirm_seconds = 4
startup_seconds = 10
offline_seconds = 30
[fuse]
cooldown_seconds = 20
[remediation]
mode = "act"
[deliveries]
redeliver_seconds = 5
[leaks]
mode = "act"
grace_seconds = 20
[report]
repository = "acme/.github"
[queue]
explain_after_seconds = 10
{pools}
shard_label = "shard"
active_url = "{active_url}"
min_online = 3
deploy_repository = "acme/infra"
"""
"""The last pool is the blue/green pool."""

POOL = """
[[pools]]
org = "acme"
name = "{name}"
labels = ["{name}"]
{replacer}
url = "{url}"
secret_env = "CONTROLLER_SECRET"
rerun = {{ mode = "auto" }}
"""

REPLACERS = {
    "k8s-arc": 'replacer = "arc"\nnamespace = "runners"\nrunner_name = "pod"',
    "k8s-pods": 'replacer = "pods"\nnamespace = "runners"\nrunner_name = "pod"',
    "linux-4vcpu": 'replacer = "cloudevents"',
    "linux-8vcpu": 'replacer = "cloudevents"',
    "gpu": 'replacer = "cloudevents"',
    "rollout": 'replacer = "cloudevents"',
}
"""The replacer of each pool, as in the policy."""


class SandboxError(GhappError):
    """A control of the sandbox failed."""


class Sandbox:
    """The simulated GitHub and cluster, as a process, and their controls."""

    def __init__(self, description: Mapping[str, Any]) -> None:
        """`description` is the line that the process printed when it was ready."""
        self.description = description

    def control(self, name: str, **arguments: Any) -> Any:
        """Calls a control of the organization `acme` by its name in the URL; returns its result.

        Raises:
            SandboxError: the sandbox did not answer, or refused it.
        """
        import httpx

        url = f"{self.description['url']}/_sandbox/orgs/acme/{name}"
        try:
            answer = httpx.post(url, json=arguments, timeout=CALL_SECONDS, trust_env=False)
            answer.raise_for_status()
        except httpx.HTTPError as error:
            raise SandboxError(f"{name}: {error}") from None
        return answer.json()


def isolated_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment without the caller's deployment: no address, secret, cluster or proxy of it.

    Unknown variables of `ghapp` remain, so that a misspelt one is refused.
    """
    dropped = ({*VARIABLES, *CLUSTER} - KEPT_VARIABLES) | CERTIFICATE_VARIABLES
    found = {name: value for name, value in environ.items() if name not in dropped and not _is_proxy(name)}
    return found | {"NO_PROXY": "*"}  # else macOS' own settings would count


def _is_proxy(name: str) -> bool:
    return name.lower().endswith("_proxy")


@contextmanager
def run_sandbox(folder: Path, webhook_url: str, watchdog: Watchdog, environ: Mapping[str, str]) -> Iterator[Sandbox]:
    """Runs the process while the block runs, in this environment; its kubeconfig is in the folder.

    Raises:
        GhappError: it did not start.
    """
    ready = folder / "sandbox.json"
    options = ["--rollout", "--reruns", "--port", "0", "--webhook-url", webhook_url]
    options += ["--kubeconfig", str(folder / KUBECONFIG)]
    # Only the dashboard may write to the terminal.
    with uninterrupted(), ready.open("wb") as out, folder.joinpath("sandbox.log").open("wb") as log_file:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and our own module
            [*PYTHON, "-m", "ghapp.sandbox", *options],
            env=dict(environ),
            stdout=out,
            stderr=log_file,
            start_new_session=True,
        )
        watchdog.add(process, LAST)
    try:
        ends = time.monotonic() + START_SECONDS
        while not (text := ready.read_text()).endswith("\n"):
            if process.poll() is not None or time.monotonic() > ends:
                raise GhappError("the sandbox did not start; try `python -m ghapp.sandbox` to see why")
            time.sleep(0.05)
        yield Sandbox(json.loads(text))
    finally:
        end(process)


def sandbox_environment(sandbox: Mapping[str, Any], folder: Path, page_url: str) -> dict[str, str]:
    """Returns the environment of a deployment, for the sandbox's App, its controller and its cluster.

    `page_url` is the address of the web role, to which check runs link.
    """
    url = sandbox["controller_url"]
    pools = "".join(POOL.format(name=name, url=url, replacer=replacer) for name, replacer in REPLACERS.items())
    active_url = f"{sandbox['url']}/_sandbox/orgs/acme/active-shard"
    policy, key = folder / "ghapp.toml", folder / "app.pem"
    policy.write_text(POLICY.format(pools=pools, active_url=active_url))
    key.touch(mode=0o600)
    key.write_text(sandbox["private_key"])
    return {
        "GHAPP_CONFIG": str(policy),
        "GHAPP_STATE_DIR": str(folder),
        "GHAPP_PUBLIC_URL": page_url,
        "GHAPP_GITHUB_API_URL": sandbox["api_url"],
        "GHAPP_GITHUB_WEB_URL": sandbox["url"],
        "GHAPP_APP_ID": str(sandbox["app_id"]),
        "GHAPP_PRIVATE_KEY_FILE": str(key),
        "GHAPP_WEBHOOK_SECRET": sandbox["webhook_secret"],
        "GHAPP_CLIENT_ID": sandbox["client_id"],
        "GHAPP_CLIENT_SECRET": sandbox["client_secret"],
        "CONTROLLER_SECRET": sandbox["controller_secret"],
        "KUBECONFIG": str(folder / KUBECONFIG),
    }
