"""The App's registration, its webhook and its latest deliveries. Requests are authenticated as the App."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import httpx
import msgspec

from ghapp.decoding import Count, Moment, Name, RowDecoder, Text
from ghapp.errors import GitHubUnavailableError
from ghapp.github.api import GitHub
from ghapp.github.response import expect
from ghapp.github.transport import open_client
from ghapp.github.wire import Level, read, read_rows


class _Owner(msgspec.Struct):
    login: Text = ""
    type: Text = ""


class _App(msgspec.Struct):
    name: Text
    slug: Text = ""
    owner: _Owner = msgspec.field(default_factory=_Owner)
    permissions: dict[str, Level] = {}
    events: list[Text] = []


class _Hook(msgspec.Struct):
    url: str = ""
    secret: str = ""


class _Delivery(msgspec.Struct):
    guid: Name
    delivered_at: Moment
    status_code: Count
    status: Text = ""


class AppRegistration(NamedTuple):
    """The App's registration.

    Attributes:
        name: its display name.
        slug: its name in URLs.
        owner: a login; empty if an enterprise owns the App.
        is_of_organization: True if the owner is an organization, not a user.
        permissions: the requested permissions, name → level.
        events: the subscribed events, without those that every App gets.
    """

    name: str
    slug: str
    owner: str
    is_of_organization: bool
    permissions: Mapping[str, str]
    events: tuple[str, ...]


class HookConfig(NamedTuple):
    """The webhook's URL, empty if there is none, and whether deliveries are signed."""

    url: str
    is_signed: bool


class Delivered(NamedTuple):
    """One of the latest delivery attempts: its GUID, time (epoch seconds), and the status and its text."""

    guid: str
    at: float
    status: int
    text: str

    @property
    def arrived(self) -> bool:
        """True if it was answered with 2xx."""
        return 200 <= self.status < 300  # noqa: PLR2004


LATEST = 50

_app = RowDecoder[_App]("app", _App)
_hook = msgspec.json.Decoder(_Hook)
_deliveries = RowDecoder[list[_Delivery]]("delivery-attempt", list[_Delivery])


async def registration(github: GitHub) -> tuple[AppRegistration, str]:
    """Returns the App's registration, and the `Date` of GitHub's answer."""
    answer = await github.send("GET", "/app")
    app = read_rows(_app, expect(answer, "/app"), github.left_out).value
    owner = app.owner
    found = AppRegistration(
        app.name, app.slug, owner.login, owner.type == "Organization", app.permissions, tuple(app.events)
    )
    return found, answer.headers.get("date", "")


async def server_date(api_url: str) -> str:
    """Returns the `Date` of an unauthenticated answer, which may be an error: the time by GitHub's clock.

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
    """Returns the webhook's configuration."""
    found = read(_hook, expect(await github.send("GET", "/app/hook/config"), "/app/hook/config"))
    return HookConfig(found.url, bool(found.secret))


async def latest_deliveries(github: GitHub) -> list[Delivered]:
    """Returns the latest delivery attempts, newest first."""
    answer = await github.send("GET", "/app/hook/deliveries", per_page=LATEST)
    rows = read_rows(_deliveries, expect(answer, "/app/hook/deliveries"), github.left_out).value
    return [Delivered(row.guid, row.delivered_at.timestamp(), row.status_code, row.status) for row in rows]
