"""An installation's client whose GitHub gives one answer to everything."""

from __future__ import annotations

import msgspec

from ghapp.decoding import LeftOutRows
from ghapp.github.response import GitHubResponse
from ghapp.installations.installation import Installation


class OneAnswer:
    """Answers each request with one status and body, and records the requests."""

    installation = Installation(7, "acme", 1)

    def __init__(self, status, body):
        self._answer, self.sent, self.bodies = GitHubResponse(status, {}, msgspec.json.encode(body)), [], []
        self.left_out = LeftOutRows()

    async def send(self, method, path, *, headers=None, json=None, **params):
        self.sent.append((method, path, params))
        self.bodies.append(json)
        return self._answer
