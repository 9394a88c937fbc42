"""The form of answers: JSON, errors in GitHub's shape, pages with their `Link` header."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import urlencode

import msgspec
from starlette.responses import Response

from ghapp.sandbox.faults import JSON, error_document

DEFAULT_PAGE = 30
LARGEST_PAGE = 100

Item = TypeVar("Item")


class RestError(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = headers or {}

    def response(self) -> Response:
        """The error as GitHub writes it."""
        return json_response(error_document(self.status, self.message), self.status, self.headers)


def not_found() -> RestError:
    """404, without a reason."""
    return RestError(HTTPStatus.NOT_FOUND, "Not Found")


def unprocessable(message: str) -> RestError:
    """422."""
    return RestError(HTTPStatus.UNPROCESSABLE_ENTITY, message)


def json_response(document: Any, status: int = HTTPStatus.OK, headers: Mapping[str, str] | None = None) -> Response:
    """A document as JSON."""
    return Response(msgspec.json.encode(document), status, headers, JSON)


def no_content() -> Response:
    """204."""
    return Response(status_code=HTTPStatus.NO_CONTENT)


@dataclass(frozen=True, slots=True)
class Window:
    """The requested part of a list; pages count from 1."""

    page: int
    size: int

    @classmethod
    def asked(cls, query: Mapping[str, str]) -> Window:
        """Reads `page` and `per_page`; invalid values are replaced by the default, as on GitHub."""
        return cls(
            page=max(1, _number(query.get("page"), 1)),
            size=min(LARGEST_PAGE, _number(query.get("per_page"), DEFAULT_PAGE) or DEFAULT_PAGE),
        )

    def cut(self, items: Sequence[Item]) -> Sequence[Item]:
        """The items on this page."""
        return items[(self.page - 1) * self.size : self.page * self.size]

    def link(self, url: str, query: Mapping[str, str], total: int) -> dict[str, str]:
        """The `Link` header of this page of a list at `url`; none when everything is on it."""
        last = max(1, -(-total // self.size))
        pages: dict[str, int] = {}
        if self.page > 1:
            pages |= {"prev": self.page - 1}
        if self.page < last:
            pages |= {"next": self.page + 1, "last": last}
        if self.page > 1:
            pages |= {"first": 1}
        links = [
            f'<{url}?{urlencode({**query, "page": number})}>; rel="{relation}"' for relation, number in pages.items()
        ]
        return {"Link": ", ".join(links)} if links else {}


def _number(text: str | None, default: int) -> int:
    return int(text) if text is not None and text.isascii() and text.isdigit() else default
