"""The sandbox's deploy pipeline: it reports each deploy to the web role, as docs/gate.md has a user's pipeline do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

CALL_SECONDS = 5.0
SERVER_ERROR = 500
TOO_MANY = 429


class SandboxDeploy(NamedTuple):
    """A deploy of a shard: the shard, its role, its commit, and how many machines were created again."""

    shard: str
    role: str
    sha: str
    machines: int


class SandboxPipeline:
    """Reports deploys with a token of scope `claim`."""

    def __init__(self, pool_url: str, token: str) -> None:
        """`pool_url`: of the blue/green pool, below which its shards are."""
        self._pool_url, self._token = pool_url, token

    def report(self, deploys: Sequence[SandboxDeploy]) -> list[SandboxDeploy]:
        """Reports deploys, the oldest first; returns those that are to be reported again, as there was no answer."""
        for number, each in enumerate(deploys):
            if not self._is_answered(each):
                return [*deploys[number:]]
        return []

    def _is_answered(self, deploy: SandboxDeploy) -> bool:
        import httpx

        document = {"role": deploy.role, "ref": deploy.sha, "provision": f"{deploy.machines},0,{deploy.machines}"}
        try:
            answer = httpx.put(
                f"{self._pool_url}/shards/{deploy.shard}",
                json=document,
                headers={"authorization": f"Bearer {self._token}"},
                timeout=CALL_SECONDS,
                trust_env=False,
            )
        except httpx.HTTPError:
            return False
        return answer.status_code < SERVER_ERROR and answer.status_code != TOO_MANY
