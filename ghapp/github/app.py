"""What the App is at GitHub: its registration, and where its deliveries go. Asked as the App itself."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

import msgspec

from ghapp.github.api import GitHub, expect
from ghapp.github.wire import read


class _Owner(msgspec.Struct):
    login: str = ""


class _App(msgspec.Struct):
    name: str
    slug: str = ""
    owner: _Owner = msgspec.field(default_factory=_Owner)
    html_url: str = ""
    permissions: dict[str, str] = {}
    events: list[str] = []


class _Hook(msgspec.Struct):
    url: str = ""
    secret: str = ""


class _Delivery(msgspec.Struct):
    delivered_at: datetime
    status_code: int
    status: str = ""


class Registration(NamedTuple):
    """The App as it is registered: its name, its owner, what it asks of every organization, and its page."""

    name: str
    owner: str
    permissions: Mapping[str, str]
    events: tuple[str, ...]
    url: str


class Hook(NamedTuple):
    """Where deliveries go; empty for nowhere. Whether they are signed."""

    url: str
    is_signed: bool


class Delivered(NamedTuple):
    """One of the latest attempts to deliver: when (epoch seconds), and the status that it was answered."""

    at: float
    status: int
    said: str


LATEST = 50

_app = msgspec.json.Decoder(_App)
_hook = msgspec.json.Decoder(_Hook)
_deliveries = msgspec.json.Decoder(list[_Delivery])


async def registration(github: GitHub) -> tuple[Registration, str]:
    """The App, and the `Date` of GitHub's answer."""
    answer = await github.send("GET", "/app")
    app = read(_app, expect(answer, "/app"))
    found = Registration(app.name, app.owner.login, app.permissions, tuple(app.events), app.html_url)
    return found, answer.headers.get("date", "")


async def hook(github: GitHub) -> Hook:
    """Where deliveries go."""
    found = read(_hook, expect(await github.send("GET", "/app/hook/config"), "/app/hook/config"))
    return Hook(found.url, bool(found.secret))


async def latest_deliveries(github: GitHub) -> list[Delivered]:
    """The latest attempts, newest first."""
    answer = await github.send("GET", "/app/hook/deliveries", per_page=LATEST)
    rows = read(_deliveries, expect(answer, "/app/hook/deliveries"))
    return [Delivered(row.delivered_at.timestamp(), row.status_code, row.status) for row in rows]
