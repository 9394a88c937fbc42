"""Creating the App: its manifest, and the exchange of GitHub's code for the App's credentials.

githubkit is imported where it is used: the web role serves /setup, and must not load it before.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any
from urllib.parse import quote

import msgspec

from ghapp.credentials import CreatedApp
from ghapp.errors import CodeRefusedError
from ghapp.github import wire
from ghapp.github.response import NOT_FOUND, UNPROCESSABLE

PLACEHOLDER_URL = "https://example.com/webhook"
"""The URL of an inactive webhook: GitHub requires a public address even there."""

_created = msgspec.json.Decoder(CreatedApp)


def app_yml() -> dict[str, Any]:
    """Returns the content of the distribution's `app.yml`."""
    import yaml

    content: dict[str, Any] = yaml.safe_load(files("ghapp").joinpath("app.yml").read_text("utf-8"))
    return content


def manifest(app: Mapping[str, Any], here: str, public_url: str | None) -> dict[str, Any]:
    """Returns the manifest of the App to create.

    Args:
        app: the content of `app.yml`.
        here: our URL in this browser, to which GitHub redirects it with a code: the public one may not be served yet.
        public_url: our URL for GitHub; None if GitHub cannot reach us, which makes the webhook inactive.
    """
    hook = f"{public_url}/webhook" if public_url is not None else PLACEHOLDER_URL
    return {
        **app,
        "hook_attributes": {"url": hook, "active": public_url is not None},
        "redirect_url": f"{here}/setup/created",
        "setup_url": f"{public_url or here}/setup/installed",
        "callback_urls": [f"{public_url or here}/sign-in/callback"],
    }


async def convert(api_url: str, code: str) -> CreatedApp:
    """Exchanges the code of GitHub's redirect for the App's credentials. This works once.

    Raises:
        CodeRefusedError: the code was used, is older than an hour, or is not from GitHub.
        GitHubError: no usable answer; the code may still be valid.
    """
    from ghapp.github.transport import GitHubTransport, open_client

    async with open_client(api_url) as client:
        transport = GitHubTransport.anonymous(api_url, client)
        answer = await transport.send("POST", f"/app-manifests/{quote(code, safe='')}/conversions")
    if answer.status in (NOT_FOUND, UNPROCESSABLE):
        raise CodeRefusedError("GitHub rejected the code; a code is valid once, and for an hour")
    return wire.read(_created, answer.body)
