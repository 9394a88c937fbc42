"""Requests of an App about itself: the App, its installations, its tokens."""

from __future__ import annotations

from http import HTTPStatus

import msgspec
from starlette.responses import Response

from ghapp.sandbox.apps import SandboxInstallation, holds
from ghapp.sandbox.documents.accounts import rfc3339
from ghapp.sandbox.rest.answers import RestError, Window, json_response, not_found, unprocessable
from ghapp.sandbox.rest.call import Caller, RestCall
from ghapp.sandbox.rest.operation import RestOperation


class TokenRequest(msgspec.Struct):
    """Body of access_tokens: fewer permissions or repositories than the installation holds."""

    permissions: dict[str, str] | None = None
    repositories: list[str] | None = None
    repository_ids: list[int] | None = None


def get_app(call: RestCall) -> Response:
    """The App itself."""
    count = len(call.world.registry.of(call.app))
    return json_response(call.world.documents.app(call.app) | {"installations_count": count})


def list_installations(call: RestCall) -> Response:
    """Everywhere it is installed, suspended ones too."""
    query = dict(call.request.query_params)
    window = Window.asked(query)
    installations = call.world.registry.of(call.app)
    shown = [call.world.directory.installation_document(i) for i in window.cut(installations)]
    headers = window.link(f"{call.base}/app/installations", query, len(installations))
    return json_response(shown, headers=headers)


def get_installation(call: RestCall) -> Response:
    """One installation."""
    return json_response(call.world.directory.installation_document(_own_installation(call)))


def get_org_installation(call: RestCall) -> Response:
    """The installation on an organization."""
    installation = call.world.registry.installation_on(call.org.login, call.app)
    if installation is None:
        raise not_found()
    return json_response(call.world.directory.installation_document(installation))


def mint_token(call: RestCall) -> Response:
    """A token for an installation; 403 while it is suspended, 422 for permissions that it does not hold."""
    installation = _own_installation(call)
    if installation.suspended_at is not None:
        raise RestError(HTTPStatus.FORBIDDEN, "This installation has been suspended")
    asked = call.json(TokenRequest)
    granted = call.world.directory.granted(installation)
    for permission, level in (asked.permissions or {}).items():
        if level not in {"read", "write", "admin"} or not holds(granted, permission, level):
            raise unprocessable("The permissions requested are not granted to this installation.")
    permissions = asked.permissions or granted
    token = call.world.registry.mint(installation, call.now, permissions)
    document = {
        "token": token.value,
        "expires_at": rfc3339(call.world.stated(token.expires_at)),
        "permissions": permissions,
        "repository_selection": installation.selection,
    }
    return json_response(document, HTTPStatus.CREATED)


def convert_manifest(call: RestCall) -> Response:
    """Turns the manifest flow's code into an App with all its credentials, once."""
    app = call.world.create_app(call.request.path_params["code"])
    if app is None:
        raise not_found()
    document = call.world.documents.app(app) | {
        "client_secret": app.client_secret,
        "webhook_secret": app.hook.secret,
        "pem": app.private_key_pem,
    }
    return json_response(document, HTTPStatus.CREATED)


def _own_installation(call: RestCall) -> SandboxInstallation:
    installation = call.world.registry.installations.get(call.number("installation_id"))
    if installation is None or installation.app is not call.app:
        raise not_found()
    return installation


OPERATIONS = [
    RestOperation("GET", "/app", get_app, Caller.APP),
    RestOperation("GET", "/app/installations", list_installations, Caller.APP),
    RestOperation("GET", "/app/installations/{installation_id}", get_installation, Caller.APP),
    RestOperation("POST", "/app/installations/{installation_id}/access_tokens", mint_token, Caller.APP),
    RestOperation("GET", "/orgs/{org}/installation", get_org_installation, Caller.APP),
    RestOperation("POST", "/app-manifests/{code}/conversions", convert_manifest, Caller.ANYONE),
]
