"""Plain HTML: pages, and forms that are one button."""

from __future__ import annotations

import html
from collections.abc import Mapping
from http import HTTPStatus
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response


async def form_fields(request: Request) -> dict[str, str]:
    """The fields of a URL-encoded form, as a browser posts it."""
    return dict(parse_qsl((await request.body()).decode(errors="replace"), keep_blank_values=True))


def form(target: str, label: str, fields: Mapping[str, str]) -> str:
    """A button that posts these fields."""
    hidden = "".join(
        f'<input type="hidden" name="{html.escape(name)}" value="{html.escape(value)}">'
        for name, value in fields.items()
    )
    return f'<form method="post" action="{html.escape(target)}">{hidden}<button>{html.escape(label)}</button></form>'


def page(title: str, content: str, status: int = HTTPStatus.OK) -> Response:
    """A page; `content` is HTML."""
    head = f"<!doctype html><meta charset=utf-8><title>{html.escape(title)}</title>"
    return HTMLResponse(f"{head}<h1>{html.escape(title)}</h1>{content}", status)
