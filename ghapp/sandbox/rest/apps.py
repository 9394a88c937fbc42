"""Requests of an App about itself: the App, its installations, its tokens, its hook and the log of its deliveries."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import msgspec
from starlette.responses import Response

from ghapp.sandbox.apps import SandboxInstallation, holds
from ghapp.sandbox.deliveries import SentDelivery
from ghapp.sandbox.documents import rfc3339
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
    count = len(call.world.registry.installations_of(call.app))
    return json_response(call.world.documents.app(call.app) | {"installations_count": count})


def list_installations(call: RestCall) -> Response:
    """Everywhere it is installed, suspended ones too."""
    query = dict(call.request.query_params)
    window = Window.asked(query)
    installations = call.world.registry.installations_of(call.app)
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


class HookChange(msgspec.Struct):
    """Body of PATCH /app/hook/config; what is left out stays."""

    url: str | None = None
    content_type: str | None = None
    secret: str | None = None
    insecure_ssl: str | int | None = None


def get_hook(call: RestCall) -> Response:
    """Where deliveries go; the secret is not shown."""
    return json_response(_hook_document(call))


def change_hook(call: RestCall) -> Response:
    """Sends the coming deliveries elsewhere."""
    change = call.json(HookChange)
    hook = call.app.hook
    hook.url = hook.url if change.url is None else change.url
    hook.secret = hook.secret if change.secret is None else change.secret
    hook.content_type = change.content_type or hook.content_type
    return json_response(_hook_document(call))


def list_deliveries(call: RestCall) -> Response:
    """What was attempted, newest first; `cursor` goes on below a delivery, `status` is success or failure."""
    query = dict(call.request.query_params)
    size = Window.asked(query).size
    wanted, cursor = query.get("status"), query.pop("cursor", "")
    if cursor and not cursor.isdecimal():
        raise RestError(HTTPStatus.BAD_REQUEST, "Invalid cursor")
    if wanted not in {None, "success", "failure"}:
        raise unprocessable("status must be success or failure")
    found = [
        delivery
        for delivery in call.world.deliveries.log(call.app)
        if (not cursor or delivery.id < int(cursor)) and wanted in {None, _outcome(delivery)}
    ]
    headers = {}
    if len(found) > size:
        url = call.request.url.replace(query="").include_query_params(**query, cursor=found[size - 1].id)
        headers["Link"] = f'<{call.base}/app/hook/deliveries?{url.query}>; rel="next"'
    return json_response([_item(call, delivery) for delivery in found[:size]], headers=headers)


def get_delivery(call: RestCall) -> Response:
    """One attempt with its request and its answer."""
    delivery_id = call.number("delivery_id")
    delivery = next((d for d in call.world.deliveries.log(call.app) if d.id == delivery_id), None)
    if delivery is None:
        raise not_found()
    document = _item(call, delivery) | {
        "url": delivery.url,
        "request": {"headers": delivery.request_headers, "payload": msgspec.Raw(delivery.payload)},
        "response": {"headers": delivery.response_headers, "payload": delivery.response_body},
    }
    return json_response(document)


def redeliver(call: RestCall) -> Response:
    """Attempts a delivery once more, in the background."""
    if not call.world.deliveries.redeliver(call.app, call.number("delivery_id")):
        raise not_found()
    return json_response({}, HTTPStatus.ACCEPTED)


def _hook_document(call: RestCall) -> dict[str, Any]:
    hook = call.app.hook
    optional = {"url": hook.url, "secret": "********" if hook.secret else ""}
    present = {key: value for key, value in optional.items() if value}
    return {"content_type": hook.content_type, "insecure_ssl": "0", **present}


def _outcome(delivery: SentDelivery) -> str:
    return "success" if delivery.succeeded else "failure"


def _item(call: RestCall, delivery: SentDelivery) -> dict[str, Any]:
    return {
        "id": delivery.id,
        "guid": delivery.guid,
        "delivered_at": rfc3339(call.world.stated(delivery.at)),
        "redelivery": delivery.redelivery,
        "duration": round(delivery.duration, 3),
        "status": delivery.status,
        "status_code": delivery.status_code,
        "event": delivery.event,
        "action": delivery.action,
        "installation_id": delivery.installation_id,
        "repository_id": delivery.repository_id,
        "throttled_at": None,
    }


OPERATIONS = [
    RestOperation("GET", "/app", get_app, Caller.APP),
    RestOperation("GET", "/app/installations", list_installations, Caller.APP),
    RestOperation("GET", "/app/installations/{installation_id}", get_installation, Caller.APP),
    RestOperation("POST", "/app/installations/{installation_id}/access_tokens", mint_token, Caller.APP),
    RestOperation("GET", "/orgs/{org}/installation", get_org_installation, Caller.APP),
    RestOperation("POST", "/app-manifests/{code}/conversions", convert_manifest, Caller.ANYONE),
    RestOperation("GET", "/app/hook/config", get_hook, Caller.APP),
    RestOperation("PATCH", "/app/hook/config", change_hook, Caller.APP),
    RestOperation("GET", "/app/hook/deliveries", list_deliveries, Caller.APP),
    RestOperation("GET", "/app/hook/deliveries/{delivery_id}", get_delivery, Caller.APP),
    RestOperation("POST", "/app/hook/deliveries/{delivery_id}/attempts", redeliver, Caller.APP),
]
