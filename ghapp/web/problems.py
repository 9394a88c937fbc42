"""Errors as RFC 9457 problem documents."""

from __future__ import annotations

from http import HTTPStatus

import msgspec
from starlette.responses import Response

TYPE = "application/problem+json"


class Problem(msgspec.Struct, frozen=True):
    """An error. `detail` names the error and what would be right."""

    type: str
    title: str
    status: int
    detail: str


def problem(status: int, detail: str, headers: dict[str, str] | None = None) -> Response:
    """Returns a problem document; `detail` names the error and what would be right."""
    body = Problem("about:blank", HTTPStatus(status).phrase, status, detail)
    return Response(msgspec.json.encode(body), status, headers, TYPE)
