"""Callers of the sandbox' API server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import httpx

from ghapp.sandbox.cluster.cluster import ADMIN
from tests.support.cluster import SteeredCluster

NOON = 1_800_000_000.0
"""When a standing clock stands: 2027-01-15T08:00:00Z."""
PODS = "/api/v1/namespaces/runners/pods"
ALL_PODS = "/api/v1/pods"
ACCOUNTS = "/api/v1/namespaces/runners/serviceaccounts"
RUNNERS = "/apis/actions.github.com/v1alpha1/namespaces/runners/ephemeralrunners"
SETS = "/apis/actions.github.com/v1alpha1/namespaces/runners/ephemeralrunnersets"
MERGE = {"content-type": "application/merge-patch+json"}
JSON_PATCH = {"content-type": "application/json-patch+json"}


class Clock:
    """Stands until it is put forward."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> float:
        return self.now


class Api(httpx.Client):
    """An API server with a client."""

    def __init__(self, server: SteeredCluster, user: str = ADMIN, clock: Clock | None = None) -> None:
        super().__init__(base_url=server.url, headers={"authorization": f"Bearer {server.token(user)}"}, timeout=10)
        self.server = server
        self.control = server.control
        self.clock = clock or Clock()

    @classmethod
    @contextmanager
    def served(cls) -> Iterator[Self]:
        """One with nothing in it but the namespace `runners`, and a clock that stands."""
        clock = Clock()
        with SteeredCluster(clock=clock) as server, cls(server, clock=clock) as api:
            server.control.namespace("runners")
            yield api

    def as_(self, user: str) -> Api:
        """The same server with another client."""
        return Api(self.server, user, self.clock)

    def remove(self, path: str, **options: Any) -> httpx.Response:
        """A DELETE with options in its body."""
        body = {"kind": "DeleteOptions", "apiVersion": "v1", **options}
        return self.request("DELETE", path, json=body)

    def merge(self, path: str, patch: Any) -> httpx.Response:
        return self.patch(path, json=patch, headers=MERGE)

    def json_patch(self, path: str, *operations: dict[str, Any]) -> httpx.Response:
        return self.patch(path, json=list(operations), headers=JSON_PATCH)

    @contextmanager
    def watching(self, path: str, version: str | int | None = None, **query: Any) -> Iterator[Watching]:
        """A watch that is open; from when the answer begins it misses nothing."""
        text = {"watch": "true", "allowWatchBookmarks": "true", **query}
        if version is not None:
            text["resourceVersion"] = str(version)
        with self.stream("GET", path, params=text) as answer:
            yield Watching(self, answer)

    def version(self, path: str = PODS) -> str:
        """That of a list."""
        return str(self.get(path).raise_for_status().json()["metadata"]["resourceVersion"])


class Watching:
    """An open watch."""

    def __init__(self, api: Api, answer: httpx.Response) -> None:
        self.answer = answer
        self._api = api
        self._lines = answer.iter_lines()

    def next(self) -> dict[str, Any]:
        event: dict[str, Any] = json.loads(next(self._lines))
        return event

    def so_far(self) -> list[dict[str, Any]]:
        """The events up to now, without the bookmark that marks the end."""
        until = self._api.control.version()
        self._api.control.bookmark()
        found: list[dict[str, Any]] = []
        while True:
            event = self.next()
            if event["type"] == "BOOKMARK" and int(event["object"]["metadata"]["resourceVersion"]) >= until:
                return found
            found.append(event)

    def brief(self) -> list[tuple[str, str]]:
        """The same, as types and names."""
        return [(event["type"], event["object"]["metadata"]["name"]) for event in self.so_far()]


def status(answer: httpx.Response) -> tuple[int, str, str]:
    """Code, reason and message of a refusal: a Status whose code equals the HTTP status."""
    document = answer.json()
    assert answer.headers["content-type"] == "application/json"
    assert (document["kind"], document["apiVersion"], document["status"]) == ("Status", "v1", "Failure")
    assert document["code"] == answer.status_code
    return answer.status_code, document.get("reason", ""), document["message"]


def names(answer: httpx.Response) -> list[str]:
    return [item["metadata"]["name"] for item in answer.raise_for_status().json()["items"]]


def pod(name: str = "made", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "runner", "image": "runner:1"}], **spec},
    }
