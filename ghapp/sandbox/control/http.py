"""The control API over HTTP, under `/_sandbox`; all JSON.

Each lever takes a JSON object of its keyword arguments (an empty body is none) and answers what it returns; they are
documented where they are written. A wrong argument is 422 `{"error": …}`, an unknown organization, runner, job or pool
is 404.

`POST /_sandbox/orgs/{org}/…`
    Runners: `lose`, `restore`, `register`, `take-offline`, `bring-online`, `busy` (runners.py).
    Work: `queue`, `finish`, `head`, `click` (work.py).
    The App: `install`, `suspend`, `unsuspend`, `uninstall`, `permissions`, `select`, `deliver` (installations.py).
`POST /_sandbox/…`
    `step`, `quiet`, `webhook`, `latency`, `faults`, `limits`, `controller/fail`, `controller/barren`, `account/reset`.
`DELETE /_sandbox/faults`
    Everything works again.
`GET /_sandbox`
    Addresses, ids and all secrets.
`GET /_sandbox/account`, `GET /_sandbox/controller/events`
    What was seen.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ghapp.sandbox.control import Control, NoSuchThingError

Endpoint = Callable[[Request], Awaitable[Response]]


def routes(control: Control, describe: Callable[[], dict[str, Any]]) -> list[Route]:
    """All routes; `describe` answers `GET /_sandbox`."""
    of_an_org: dict[str, Callable[..., Any]] = {
        "lose": control.lose,
        "restore": control.restore,
        "register": control.register,
        "take-offline": control.take_offline,
        "bring-online": control.bring_online,
        "busy": control.busy,
        "queue": control.queue,
        "finish": control.finish,
        "head": control.head,
        "click": control.click,
        "install": control.install,
        "suspend": control.suspend,
        "unsuspend": control.unsuspend,
        "uninstall": control.uninstall,
        "permissions": control.permissions,
        "select": control.select,
        "deliver": control.deliver,
    }
    of_all: list[tuple[str, str, Callable[..., Any]]] = [
        ("GET", "", describe),
        ("GET", "/account", control.account),
        ("POST", "/account/reset", control.reset_account),
        ("POST", "/step", control.step),
        ("POST", "/quiet", control.quiet),
        ("POST", "/webhook", control.webhook),
        ("POST", "/latency", control.latency),
        ("POST", "/faults", control.fault),
        ("DELETE", "/faults", control.no_faults),
        ("POST", "/limits", control.limits),
        ("GET", "/controller/events", control.controller_events),
        ("POST", "/controller/fail", control.fail_controller),
        ("POST", "/controller/barren", control.barren_controller),
    ]
    return [
        *(Route(f"/_sandbox{path}", _endpoint(act), methods=[method]) for method, path, act in of_all),
        *(Route(f"/_sandbox/orgs/{{org}}/{n}", _endpoint(a), methods=["POST"]) for n, a in of_an_org.items()),
    ]


def _endpoint(act: Callable[..., Any]) -> Endpoint:
    async def call(request: Request) -> Response:
        try:
            arguments = msgspec.json.decode(await request.body() or b"{}", type=dict[str, Any])
            result = act(**request.path_params, **arguments)
        except NoSuchThingError as error:
            return _json({"error": str(error)}, HTTPStatus.NOT_FOUND)
        except (TypeError, ValueError, re.error) as error:
            return _json({"error": str(error)}, HTTPStatus.UNPROCESSABLE_ENTITY)
        return _json(result)

    return call


def _json(document: Any, status: int = HTTPStatus.OK) -> Response:
    return Response(msgspec.json.encode(document), status, media_type="application/json")
