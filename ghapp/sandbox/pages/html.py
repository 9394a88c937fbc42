"""Plain HTML: pages, forms that are one button, and Markdown as GitHub shows it."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from http import HTTPStatus
from urllib.parse import parse_qsl

from markdown_it import MarkdownIt  # comes with rich
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

STYLE = """
:root { color-scheme: light dark; --ink: #1f2328; --soft: #59636e; --paper: #fff; --line: #d1d9e0; --link: #0969da;
  --band: #f6f8fa; }
@media (prefers-color-scheme: dark) { :root { --ink: #f0f6fc; --soft: #9198a1; --paper: #0d1117; --line: #3d444d;
  --link: #4493f8; --band: #151b23; } }
* { box-sizing: border-box; }
body { margin: 0; font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); }
header { padding: .6rem 1rem; background: var(--band); border-bottom: 1px solid var(--line); color: var(--soft); }
main { max-width: 76rem; margin: 0 auto; padding: 1rem; } h1 { font-size: 1.4rem; line-height: 1.3; }
a { color: var(--link); } code, pre { font: .88em ui-monospace, monospace; }
form { margin: .5rem 0 0; } form + p { margin: .2rem 0 .8rem; color: var(--soft); font-size: .9rem; }
button { font: inherit; font-weight: 600; color: inherit; background: var(--band); padding: .35rem .9rem;
  border: 1px solid var(--line); border-radius: .4rem; cursor: pointer; }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
.markdown { overflow-x: auto; margin: 1.25rem 0; }
pre { white-space: pre-wrap; background: var(--band); padding: .75rem; border-radius: .4rem; }
table { border-collapse: collapse; font-size: .9rem; } tr:nth-child(even) td { background: var(--band); }
th, td { border: 1px solid var(--line); padding: .35rem .7rem; text-align: left; white-space: nowrap; }
"""

NOTICE = "A simulated GitHub; it runs on this machine alone."
_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")


async def form_fields(request: Request) -> dict[str, str]:
    """Returns the fields of a URL-encoded form, as a browser posts it."""
    return dict(parse_qsl((await request.body()).decode(errors="replace"), keep_blank_values=True))


def form(target: str, label: str, fields: Mapping[str, str]) -> str:
    """Returns a button that posts these fields."""
    hidden = "".join(
        f'<input type="hidden" name="{html.escape(name)}" value="{html.escape(value)}">'
        for name, value in fields.items()
    )
    return f'<form method="post" action="{html.escape(target)}">{hidden}<button>{html.escape(label)}</button></form>'


def markdown(text: str) -> str:
    """Returns Markdown as HTML; HTML in it is shown as text, but for `code` elements."""
    rendered = re.sub(r"&lt;code&gt;(.*?)&lt;/code&gt;", r"<code>\1</code>", _MARKDOWN.render(text))
    return f'<div class="markdown" tabindex="0">{rendered}</div>'


def page(title: str, content: str, status: int = HTTPStatus.OK) -> Response:
    """Returns a page; `content` is HTML."""
    head = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head>'
    )
    body = f"<body><header>{NOTICE}</header><main><h1>{html.escape(title)}</h1>{content}</main></body></html>"
    return HTMLResponse(head + body, status)
