"""The API server over HTTP, on a loopback port, in a thread of its own.

```python
with ClusterServer() as cluster:
    cluster.control.pod("runners", "linux-x7k2p")
    config = KubeConfig.from_file(cluster.kubeconfig(tmp_path / "kubeconfig"))
```

It authenticates, authorizes, and answers; its discovery has its version, its groups, and the resources
in each.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager
from email.utils import formatdate
from pathlib import Path
from typing import Any

import msgspec
import yaml
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from ghapp.sandbox.cluster import rbac, requests, resources, watch
from ghapp.sandbox.cluster.cluster import ADMIN, SimulatedCluster
from ghapp.sandbox.cluster.control import ClusterControl
from ghapp.sandbox.cluster.kinds import ObjectKind
from ghapp.sandbox.cluster.rbac import ACCESS_REVIEW, ACCESS_REVIEWS, AUTHORIZATION_GROUP, User
from ghapp.sandbox.cluster.requests import ParsedRequest
from ghapp.sandbox.cluster.status import StatusError, method_not_allowed, unauthorized, unknown_resource
from ghapp.sandbox.cluster.store import Obj, VersionForgotten
from ghapp.sandbox.cluster.watch import Watch
from ghapp.sandbox.serving import Serving

SERVER_VERSION: Obj = {
    "major": "1",
    "minor": "34",
    "emulationMajor": "1",
    "emulationMinor": "34",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "33",
    "gitVersion": "v1.34.1",
    "gitCommit": "93248f9ae092f571eb870b7664c534bfc7d00f03",
    "gitTreeState": "clean",
    "buildDate": "2025-09-09T19:37:48Z",
    "goVersion": "go1.24.6",
    "compiler": "gc",
    "platform": "linux/amd64",
}
_VERBS = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"
PAGE_NOT_FOUND = b"404 page not found\n"
_BEARER = "bearer "
AS_USER = "/as/"
"""A path that begins so has the bearer token next: kubectl sends none over plain HTTP."""

TICK_SECONDS = 0.02


def discovery_document(path: str, kinds: Collection[ObjectKind]) -> Obj | None:
    """Returns the document at a discovery path; None when there is none."""
    parts = [part for part in path.split("/") if part]
    if parts == ["api"]:
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
    groups = sorted({(kind.group, kind.version) for kind in kinds if kind.group} | {(AUTHORIZATION_GROUP, "v1")})
    if parts == ["apis"]:
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(*group) for group in groups]}
    if parts == ["api", "v1"]:
        return _resources("", "v1", kinds)
    if len(parts) == 2 and parts[0] == "apis":  # noqa: PLR2004 - /apis/group
        for group, version in groups:
            if group == parts[1]:
                return {"kind": "APIGroup", "apiVersion": "v1"} | _group(group, version)
    if len(parts) == 3 and parts[0] == "apis" and (parts[1], parts[2]) in groups:  # noqa: PLR2004
        return _resources(parts[1], parts[2], kinds)
    return None


def _group(group: str, version: str) -> Obj:
    offered = {"groupVersion": f"{group}/{version}", "version": version}
    return {"name": group, "versions": [offered], "preferredVersion": offered}


def _resources(group: str, version: str, kinds: Collection[ObjectKind]) -> Obj:
    listed: list[Obj] = []
    for kind in sorted(
        (kind for kind in kinds if (kind.group, kind.version) == (group, version)), key=lambda kind: kind.plural
    ):
        shown: Obj = {"singularName": kind.kind.lower(), "namespaced": kind.namespaced, "kind": kind.kind}
        listed.append({"name": kind.plural} | shown | {"verbs": _VERBS})
        if kind.has_status:
            listed.append({"name": f"{kind.plural}/status"} | shown | {"verbs": ["get", "patch", "update"]})
        listed += [{"name": f"{kind.plural}/{part}"} | shown | {"verbs": ["get"]} for part in kind.subresources]
    if group == AUTHORIZATION_GROUP:
        listed.append(
            {
                "name": ACCESS_REVIEWS,
                "singularName": "",
                "namespaced": False,
                "kind": ACCESS_REVIEW,
                "verbs": ["create"],
            }
        )
    named = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": named, "resources": listed}


def application(
    cluster: SimulatedCluster, lifespan: Callable[[Starlette], AbstractAsyncContextManager[None]]
) -> Starlette:
    """Returns the application of a cluster."""
    return Starlette(routes=[Route("/{path:path}", ApiServer(cluster))], lifespan=lifespan)


def with_token_of_path(scope: Scope) -> Scope:
    """Returns the scope of a request below `/as/TOKEN` as one with that token in its header; others as they are."""
    path = str(scope["path"])
    if not path.startswith(AS_USER):
        return scope
    token, _, rest = path.removeprefix(AS_USER).partition("/")
    headers = [(name, value) for name, value in scope["headers"] if name != b"authorization"]
    headers.append((b"authorization", f"Bearer {token}".encode()))
    return {**scope, "path": f"/{rest}", "raw_path": f"/{rest}".encode(), "headers": headers}


class ApiServer:
    """Answers each request, as an ASGI application: watches need more than a response."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        scope = with_token_of_path(scope)
        request = Request(scope, receive)
        query = dict(request.query_params)
        asked = requests.read(request.method, request.url.path, query)
        try:
            user = self._user(request)
        except StatusError as refusal:
            await _refused(refusal)(scope, receive, send)
            return

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            await self._answer(Request(scope, receive), user, asked, query, send)

        async def send_dated(message: Message) -> None:
            if message["type"] == "http.response.start":
                date = formatdate(self._cluster.clock(), usegmt=True).encode()
                message = {**message, "headers": [*message.get("headers", ()), (b"date", date)]}
            await send(message)

        await self._cluster.around(user.name, asked, answer)(scope, receive, send_dated)

    async def _answer(
        self, request: Request, user: User, asked: ParsedRequest | None, query: dict[str, str], send: Send
    ) -> None:
        scope, receive = request.scope, request.receive
        try:
            if asked is None:
                response = self._of_no_resource(request, user)
            elif asked.verb == "watch":
                rbac.check(user, asked)
                await self._watch(asked, query, scope, receive, send)
                return
            else:
                response = await self._of_resource(request, user, asked, query)
        except StatusError as refusal:
            plain = self._cluster.plain_not_found and refusal.message == unknown_resource().message
            response = Response(PAGE_NOT_FOUND, 404, media_type=TEXT) if plain else _refused(refusal)
        await response(scope, receive, send)

    def _user(self, request: Request) -> User:
        content = request.headers.get("authorization", "")
        if not content:
            return self._cluster.anonymous
        token = content[len(_BEARER) :].strip() if content.lower().startswith(_BEARER) else ""
        user = self._cluster.user_of(token) if token else None
        if user is None:
            raise unauthorized()
        return user

    async def _of_resource(self, request: Request, user: User, asked: ParsedRequest, query: dict[str, str]) -> Response:
        rbac.check(user, asked)
        media_type = request.headers.get("content-type", "").partition(";")[0].strip()
        content = resources.RequestContent(query, await request.body(), media_type)
        done = resources.answer(self._cluster, user, asked, content)
        return Response(done.body, done.code, _headers(), done.media_type)

    def _of_no_resource(self, request: Request, user: User) -> Response:
        path = request.url.path
        rbac.check_path(user, request.method.lower(), path)
        if request.method not in ("GET", "HEAD"):
            raise method_not_allowed()
        if path.startswith(("/healthz", "/livez", "/readyz")):
            return Response(b"ok", 200, _headers(), TEXT)
        found: Any = SERVER_VERSION if path == "/version" else None
        if found is None:
            with self._cluster.lock:
                found = discovery_document(path, self._cluster.installed)
        if found is None:
            raise unknown_resource()
        return Response(msgspec.json.encode(found), 200, _headers(), JSON)

    async def _watch(
        self, asked: ParsedRequest, query: dict[str, str], scope: Scope, receive: Receive, send: Send
    ) -> None:
        cluster = self._cluster
        with cluster.lock:
            cluster.settle()
            kind = resources.kind_of(cluster, asked)
            wanted = watch.options(query)
            selector = resources.selector(kind, asked, query)
            try:
                opened = Watch(cluster.store, kind, selector, wanted)
            except VersionForgotten as forgotten:
                await _expired(watch.too_old(forgotten), by_http=cluster.expires_by_http)(scope, receive, send)
                return
            cluster.watches.add(opened)
        try:
            await opened.serve(scope, receive, send, cluster.cut)
        finally:
            with cluster.lock:
                opened.close()
                cluster.watches.discard(opened)


def _expired(status: dict[str, Any], *, by_http: bool) -> Response:
    if by_http:
        return Response(msgspec.json.encode(status), 410, _headers(), JSON)
    return Response(watch.error_line(status), 200, _headers(), JSON)


def _refused(refusal: StatusError) -> Response:
    body = msgspec.json.encode(refusal.document())
    return Response(body, refusal.code, _headers() | refusal.headers, JSON)


def _headers() -> dict[str, str]:
    return {"cache-control": "no-cache, private", "audit-id": str(uuid.uuid4())}


class ClusterServer(Serving):
    """A simulated API server that is served inside a `with` block.

    Attributes:
        url: its root.
        cluster: its state; read by tests under its lock, and changed through `control`.
        control: its controls, callable from any thread.
    """

    def __init__(self, *, clock: Callable[[], float] = time.time, port: int = 0) -> None:
        super().__init__("the cluster", port=port)
        self.cluster = SimulatedCluster(clock)
        self.control = ClusterControl(self.cluster)
        self.serve(lambda living: application(self.cluster, living), lambda: [self._tick()])

    def token(self, user: str = ADMIN) -> str:
        """Returns the bearer token of a user; LookupError for an unknown user, or one without a token."""
        known = self.cluster.users.get(user)
        if known is None or known.token is None:
            raise LookupError(f"no user {user!r} with a token; control.user({user!r}, rules) makes one")
        return known.token

    def kubeconfig(self, path: Path, user: str = ADMIN, namespace: str = "default") -> Path:
        """Writes a kubeconfig for a user; returns its path. Over plain HTTP kubectl sends no header with a token."""
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "sandbox", "cluster": {"server": f"{self.url}{AS_USER}{self.token(user)}"}}],
            "users": [{"name": user, "user": {"token": self.token(user)}}],
            "contexts": [{"name": "sandbox", "context": {"cluster": "sandbox", "user": user, "namespace": namespace}}],
            "current-context": "sandbox",
        }
        path.write_text(yaml.safe_dump(document, sort_keys=False))
        return path

    async def _tick(self) -> None:
        while True:
            self.cluster.settle_due()
            await asyncio.sleep(TICK_SECONDS)
