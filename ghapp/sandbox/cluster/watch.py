"""A watch: the changes after a version, one JSON object a line, until the client disconnects.

An object that stops matching comes as DELETED in the form in which it last matched, one that begins to as ADDED.
Without a version, or from 0, the present objects come first as ADDED. A version that is not kept any more is answered
200 with one ERROR event or, when a control says so, 410.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Mapping
from enum import Enum
from typing import NamedTuple

import msgspec
from starlette.types import Receive, Scope, Send

from ghapp.sandbox.cluster.kinds import PODS, ObjectKind
from ghapp.sandbox.cluster.lists import Selector, number, version_number
from ghapp.sandbox.cluster.requests import is_true
from ghapp.sandbox.cluster.status import StatusCause, StatusError, expired, invalid_as
from ghapp.sandbox.cluster.store import IN_ORDER, Obj, Store, Stored, StoredChange, VersionForgotten
from ghapp.sandbox.serving import break_connection

DEFAULT_SECONDS = 1800
"""The default duration of a watch: the real server chooses between this and its double."""

BOOKMARK_SECONDS = 60
INITIAL_END = "k8s.io/initial-events-end"
_HEADERS = [(b"content-type", b"application/json"), (b"cache-control", b"no-cache, private")]


class Ending(Enum):
    """Ways in which a watch ends.

    `ORDERLY`: as after `timeoutSeconds`. `BROKEN`: the connection is closed, with the answer incomplete; all that was
    sent arrives. `RESET`: the connection is reset; what was sent last may be lost. `HALF`: half an event, then as
    broken. `EXPIRED`: an ERROR event with a `Status` of code 410.
    """

    ORDERLY = "orderly"
    BROKEN = "broken"
    RESET = "reset"
    HALF = "half"
    EXPIRED = "expired"


CutAfterEvent = Callable[[], Ending | None]
"""Called after each event; returns how the watch ends there, None when it continues."""


class WatchOptions(NamedTuple):
    """`version` None is the most recent; `seconds` is the maximum duration."""

    version: int | None = None
    bookmarks: bool = False
    seconds: float = DEFAULT_SECONDS
    announces_start: bool = False
    """`sendInitialEvents=true`: the present objects come first, and a bookmark marks their end."""
    omits_start: bool = False
    """`sendInitialEvents=false`: the present objects are not sent."""


def options(query: Mapping[str, str]) -> WatchOptions:
    """Reads the options; StatusError for invalid or contradicting ones."""
    version_text = query.get("resourceVersion", "")
    version = version_number(version_text) if version_text else 0
    match, initial = query.get("resourceVersionMatch", ""), query.get("sendInitialEvents")
    if match and initial is None:
        raise _forbidden("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
    if initial is not None and match != "NotOlderThan":
        raise _forbidden("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
    announces = is_true(initial)
    return WatchOptions(
        None if version == 0 or announces else version,
        is_true(query.get("allowWatchBookmarks")),
        number(query.get("timeoutSeconds", ""), "timeoutSeconds") or DEFAULT_SECONDS,
        announces,
        initial is not None and not announces,
    )


def _forbidden(why: str) -> StatusError:
    causes = [StatusCause("FieldValueForbidden", f"Forbidden: {why}", "resourceVersionMatch")]
    return invalid_as("ListOptions", "meta.k8s.io", "", causes)


class Bookmark(NamedTuple):
    """A version up to which a watch has seen all."""

    version: int
    ends_start: bool = False


class Watch:
    """An open watch. It is created under the cluster's lock, so that it misses nothing, and served without it."""

    def __init__(self, store: Store, kind: ObjectKind, selector: Selector, wanted: WatchOptions) -> None:
        """Raises VersionForgotten when its start is not kept any more."""
        self.kind = kind
        self.wanted = wanted
        self._selector = selector
        self._waiting: deque[StoredChange | Stored | Bookmark | Ending] = deque()
        if wanted.version is not None:
            self._waiting.extend(store.since(kind, wanted.version))
            self._floor = wanted.version
        else:
            self._floor = store.version
            if not wanted.omits_start:
                now = store.all(kind)
                self._waiting.extend(now[key] for key in sorted(now, key=IN_ORDER) if selector.matches(now[key]))
        # The version up to which everything was sent; a bookmark never exceeds it, although other threads write
        # meanwhile.
        self._sent_up_to = max(self._floor, store.version)
        if wanted.announces_start and wanted.bookmarks:
            self._waiting.append(Bookmark(store.version, ends_start=True))
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()
        self._ending: Ending | None = None
        self._is_disconnected = False
        self._stop_listening = store.listen(kind, self._on_change)

    def close(self) -> None:
        """Stops listening."""
        self._stop_listening()

    def end(self, how: Ending) -> None:
        """Ends it at once, from any thread; unsent events are dropped."""
        self._ending = how
        self._wake()

    def finish(self) -> None:
        """Ends it orderly once it has sent all events, from any thread."""
        self._waiting.append(Ending.ORDERLY)
        self._wake()

    def bookmark(self, version: int) -> None:
        """Sends a bookmark if the client allows some, from any thread."""
        if self.wanted.bookmarks:
            self._waiting.append(Bookmark(version))
            self._wake()

    def _on_change(self, change: StoredChange) -> None:
        # A watch from a future version sends nothing until that version.
        if change.version > self._floor:
            self._waiting.append(change)
            self._wake()

    def _wake(self) -> None:
        with contextlib.suppress(RuntimeError):  # the server has stopped meanwhile
            self._loop.call_soon_threadsafe(self._woken.set)

    async def serve(self, scope: Scope, receive: Receive, send: Send, cut: CutAfterEvent) -> None:
        """Sends its events until it ends, or the client disconnects."""
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        disconnect = asyncio.create_task(self._await_disconnect(receive))
        try:
            await self._end(await self._send_all(send, cut), scope, send)
        finally:
            disconnect.cancel()

    async def _send_all(self, send: Send, cut: CutAfterEvent) -> Ending:
        until = self._loop.time() + self.wanted.seconds
        bookmark_at = self._loop.time() + BOOKMARK_SECONDS
        while not self._is_disconnected:
            while self._waiting and self._ending is None:
                item = self._waiting.popleft()
                if isinstance(item, Ending):
                    return item
                line = self._line(item)
                if line is None:
                    continue
                await send(_chunk(line))
                if not line.startswith(b'{"type":"BOOKMARK"') and (ending := cut()):
                    return ending
                if self._is_disconnected:
                    return Ending.BROKEN
            if self._ending is not None:
                return self._ending
            now = self._loop.time()
            if now >= min(until, bookmark_at):
                if self.wanted.bookmarks:
                    await send(_chunk(self._bookmarked(Bookmark(self._sent_up_to))))
                if now >= until:
                    return Ending.ORDERLY
                bookmark_at = now + BOOKMARK_SECONDS
            self._woken.clear()
            if self._waiting or self._ending is not None or self._is_disconnected:
                continue
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), min(until, bookmark_at) - now)
        return Ending.BROKEN

    async def _end(self, how: Ending, scope: Scope, send: Send) -> None:
        if how is Ending.RESET:
            break_connection(scope)
            return
        if how is Ending.HALF:
            line = self._bookmarked(Bookmark(self._sent_up_to))
            await send(_chunk(line[: len(line) // 2]))
            return  # without a last chunk the server closes the connection, as for BROKEN
        if how is Ending.EXPIRED:
            status = expired(f"too old resource version: {self._floor} ({self._sent_up_to})")
            await send(_chunk(error_line(status.document())))
        if how in (Ending.ORDERLY, Ending.EXPIRED):
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _await_disconnect(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._is_disconnected = True
        self._woken.set()

    def _line(self, item: StoredChange | Stored | Bookmark) -> bytes | None:
        if isinstance(item, Bookmark):
            self._sent_up_to = max(self._sent_up_to, item.version)
            return self._bookmarked(item)
        self._sent_up_to = max(self._sent_up_to, item.version)
        if isinstance(item, Stored):
            return _event("ADDED", item)
        was = item.before is not None and self._selector.matches(item.before)
        if item.after is not None and self._selector.matches(item.after):
            return _event("MODIFIED" if was else "ADDED", item.after)
        if not was or item.before is None:
            return None
        return _event("DELETED", item.last if item.after is None else item.before.at(item.version))

    def _bookmarked(self, bookmark: Bookmark) -> bytes:
        meta: Obj = {"resourceVersion": str(bookmark.version)}
        if bookmark.ends_start:
            meta["annotations"] = {INITIAL_END: "true"}
        value: Obj = {"kind": self.kind.kind, "apiVersion": self.kind.api_version, "metadata": meta}
        if self.kind is PODS:
            value |= {"spec": {"containers": None}, "status": {}}
        return msgspec.json.encode({"type": "BOOKMARK", "object": value}) + b"\n"


def error_line(status: Obj) -> bytes:
    """Returns an ERROR event."""
    return msgspec.json.encode({"type": "ERROR", "object": status}) + b"\n"


def too_old(forgotten: VersionForgotten) -> Obj:
    """Returns the `Status` for a watch from such a version."""
    return expired(f"too old resource version: {forgotten.asked} ({forgotten.oldest})").document()


def _event(kind: str, stored: Stored) -> bytes:
    return b'{"type":"' + kind.encode() + b'","object":' + stored.encoded + b"}\n"


def _chunk(body: bytes) -> Obj:
    return {"type": "http.response.body", "body": body, "more_body": True}
