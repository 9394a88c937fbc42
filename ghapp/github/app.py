"""What the App is at GitHub: its registration, and where its deliveries go. Asked as the App itself."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

import httpx
import msgspec

from ghapp.errors import GitHubUnavailableError
from ghapp.github.api import GitHub
from ghapp.github.transport import expect, open_client
from ghapp.github.wire import read


class _Owner(msgspec.Struct):
    login: str = ""
    type: str = ""


class _App(msgspec.Struct):
    name: str
    slug: str = ""
    owner: _Owner = msgspec.field(default_factory=_Owner)
    permissions: dict[str, str] = {}
    events: list[str] = []


class _Hook(msgspec.Struct):
    url: str = ""
    secret: str = ""


class _Delivery(msgspec.Struct):
    guid: str
    delivered_at: datetime
    status_code: int
    status: str = ""


class AppRegistration(NamedTuple):
    """The App as it is registered.

    Attributes:
        name: for people.
        slug: in addresses.
        owner: a login; empty where an enterprise owns it.
        is_of_organization: whether its owner is one, and no user.
        permissions: what it asks of every organization, name → level.
        events: what it is told of besides what every App is.
    """

    name: str
    slug: str
    owner: str
    is_of_organization: bool
    permissions: Mapping[str, str]
    events: tuple[str, ...]


class HookConfig(NamedTuple):
    """Where deliveries go; empty for nowhere. Whether they are signed."""

    url: str
    is_signed: bool


class Delivered(NamedTuple):
    """One of the latest attempts to deliver: of what, when (epoch seconds), and the status that it was answered."""

    guid: str
    at: float
    status: int
    said: str

    @property
    def arrived(self) -> bool:
        """Whether it was taken."""
        return 200 <= self.status < 300  # noqa: PLR2004


LATEST = 50

_app = msgspec.json.Decoder(_App)
_hook = msgspec.json.Decoder(_Hook)
_deliveries = msgspec.json.Decoder(list[_Delivery])


async def registration(github: GitHub) -> tuple[AppRegistration, str]:
    """The App, and the `Date` of GitHub's answer."""
    answer = await github.send("GET", "/app")
    app = read(_app, expect(answer, "/app"))
    owner = app.owner
    found = AppRegistration(
        app.name, app.slug, owner.login, owner.type == "Organization", app.permissions, tuple(app.events)
    )
    return found, answer.headers.get("date", "")


async def server_date(api_url: str) -> str:
    """The `Date` of an answer that anybody is given, if only a refusal: what GitHub's clock says.

    Raises:
        GitHubUnavailableError: no answer.
    """
    async with open_client(api_url) as client:
        try:
            answer = await client.get("app")
        except httpx.HTTPError as error:
            raise GitHubUnavailableError(f"GET /app: no answer ({type(error).__name__})") from None
    return str(answer.headers.get("date", ""))


async def hook(github: GitHub) -> HookConfig:
    """Where deliveries go."""
    found = read(_hook, expect(await github.send("GET", "/app/hook/config"), "/app/hook/config"))
    return HookConfig(found.url, bool(found.secret))


async def latest_deliveries(github: GitHub) -> list[Delivered]:
    """The latest attempts, newest first."""
    answer = await github.send("GET", "/app/hook/deliveries", per_page=LATEST)
    rows = read(_deliveries, expect(answer, "/app/hook/deliveries"))
    return [Delivered(row.guid, row.delivered_at.timestamp(), row.status_code, row.status) for row in rows]
