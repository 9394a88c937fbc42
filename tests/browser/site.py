"""Real roles in front of a sandbox, for tests in a browser."""

from __future__ import annotations

from contextlib import contextmanager

from ghapp.sandbox.config import OrgConfig, PoolConfig, SandboxConfig
from ghapp.sandbox.server import SandboxServer
from tests.support.ports import free_port
from tests.support.running import running
from tests.support.waiting import wait_for

POOL = "linux-4vcpu"
POLICY = """
[sweep]
interval_seconds = 1
[evidence]
confirm_seconds = 1
startup_seconds = 1
"""


class Site:
    """`base` is its address."""

    def __init__(self, github, app):
        self.github, self.app, self.base = github, app, app.base
        self.redis_url = f"unix://{app.state}/redis/redis.sock"


TWELVE = (OrgConfig(pools=(PoolConfig(name=POOL, size=12),)),)
"""An organization with one pool."""


@contextmanager
def site(folder, orgs=TWELVE, policy="", kind=Site, permissions=None, **environ):
    """Runs `ghapp up` with people signing in; yields a `kind` once all runners of acme are known.

    Args:
        folder: for its files.
        orgs: of the simulated GitHub.
        policy: appended to `POLICY`; `{url}` is the address of the simulated controller.
        kind: the class of the result.
        permissions: of the App; None: the least.
        environ: more of its environment.
    """
    more = {} if permissions is None else {"permissions": permissions}
    runners = sum(pool.size for pool in orgs[0].pools)
    with SandboxServer(SandboxConfig(orgs=orgs, quiet=True, **more)) as github:
        (folder / "ghapp.toml").write_text(POLICY + policy.replace("{url}", github.controller_url))
        key = folder / "app.pem"
        key.write_text(github.app.private_key_pem)
        key.chmod(0o600)
        environ = {
            "GHAPP_CONFIG": str(folder / "ghapp.toml"),
            "GHAPP_APP_ID": str(github.app.id),
            "GHAPP_PRIVATE_KEY_FILE": str(key),
            "GHAPP_WEBHOOK_SECRET": github.app.hook.secret,
            "GHAPP_CLIENT_ID": github.app.client_id,
            "GHAPP_CLIENT_SECRET": github.app.client_secret,
            "CONTROLLER_SECRET": github.controller_secret,
            **environ,
        }
        with running(github, folder, free_port(), more=environ) as app:
            assert wait_for(lambda: f"All {runners} runners" in app.page("/orgs/acme").text, 60), app.log()
            yield kind(github, app)
