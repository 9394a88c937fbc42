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

NOWHERE = "https://example.com/webhook"
"""Stands in a hook that is not active: GitHub wants an address on the public Internet even there."""

_created = msgspec.json.Decoder(CreatedApp)


def app_yml() -> dict[str, Any]:
    """What the distribution's `app.yml` says."""
    import yaml

    content: dict[str, Any] = yaml.safe_load(files("ghapp").joinpath("app.yml").read_text("utf-8"))
    return content


def manifest(app: Mapping[str, Any], here: str, public_url: str | None) -> dict[str, Any]:
    """What GitHub is asked to create.

    Args:
        app: `app.yml`'s content.
        here: our address as the browser reaches it, to which it is sent back with a code.
        public_url: our address as GitHub reaches it; None when it cannot, and the hook is to be inactive.
    """
    hook = f"{public_url}/webhook" if public_url is not None else NOWHERE
    return {
        **app,
        "hook_attributes": {"url": hook, "active": public_url is not None},
        "redirect_url": f"{here}/setup/created",
        "setup_url": f"{public_url or here}/setup/installed",
    }


async def convert(api_url: str, code: str) -> CreatedApp:
    """Exchange the code with which GitHub sent the browser back. It can be done once.

    Raises:
        CodeRefusedError: it was done already, more than an hour ago, or GitHub never gave this code.
        GitHubError: no usable answer; the code may still be good.
    """
    from githubkit import UnauthAuthStrategy

    from ghapp.github.transport import NOT_FOUND, UNPROCESSABLE, GitHubTransport, open_client

    async with open_client(api_url) as client:
        transport = GitHubTransport(UnauthAuthStrategy(), api_url, client)
        answer = await transport.send("POST", f"/app-manifests/{quote(code, safe='')}/conversions")
    if answer.status in (NOT_FOUND, UNPROCESSABLE):
        raise CodeRefusedError("GitHub does not know this code; it is good once, and for an hour")
    return wire.read(_created, answer.body)
