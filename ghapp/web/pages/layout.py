"""The layout of our HTML pages: one stylesheet, no scripts, no external resources."""

from __future__ import annotations

import base64
import hashlib
from html import escape

STYLE = """
:root { color-scheme: light dark; --ink: #1f2328; --soft: #59636e; --paper: #f6f8fa; --card: #fff; --line: #d1d9e0;
  --go: #1f883d; --link: #0969da; --warn: #9a6700; --warn-paper: #fff8c5; --warn-line: #d4a72c; }
@media (prefers-color-scheme: dark) { :root { --ink: #f0f6fc; --soft: #9198a1; --paper: #010409; --card: #0d1117;
  --line: #3d444d; --go: #238636; --link: #4493f8; --warn: #d29922; --warn-paper: #272115; --warn-line: #6b5200; } }
* { box-sizing: border-box; }
body { font: 16px/1.55 system-ui, sans-serif; margin: 0; padding: 3rem 1rem; background: var(--paper);
  color: var(--ink); }
main { max-width: 40rem; margin: 0 auto; padding: 2.25rem 2.5rem; background: var(--card);
  border: 1px solid var(--line); border-radius: .75rem; }
header { max-width: 40rem; margin: 0 auto 1rem; display: flex; justify-content: space-between; color: var(--soft);
  font-size: .9rem; }
header b { color: var(--ink); font: 600 1rem ui-monospace, monospace; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .75rem; letter-spacing: -.01em; }
h2 { font-size: 1rem; margin: 1.75rem 0 .5rem; }
p { margin: .6rem 0; } a { color: var(--link); }
code { font: .875em ui-monospace, monospace; overflow-wrap: anywhere; }
.soft { color: var(--soft); font-size: .9rem; }
.warn { background: var(--warn-paper); border: 1px solid var(--warn-line); border-radius: .5rem;
  padding: .8rem 1rem; margin: 1.25rem 0; } .warn b { color: var(--warn); } .warn p { margin: .3rem 0; }
table { width: 100%; border-collapse: collapse; font-size: .9rem; }
td { padding: .45rem .75rem .45rem 0; border-top: 1px solid var(--line); vertical-align: top; }
td:last-child { padding-right: 0; overflow-wrap: anywhere; }
.levels td:last-child { text-align: right; color: var(--soft); }
main.wide, header.wide { max-width: 60rem; } .wide h1 { margin-top: 2.5rem; } .wide h1:first-child { margin-top: 0; }
.wide td:first-child { width: 9rem; } .wide td:first-child code { overflow-wrap: normal; }
.wide h2 code { font-weight: 600; }
.wide h2 { border-top: 1px solid var(--line); padding-top: 1.2rem; margin-top: 2rem; }
pre { background: var(--paper); border: 1px solid var(--line); border-radius: .4rem; padding: .6rem .8rem;
  margin: .75rem 0; white-space: pre-wrap; overflow-wrap: anywhere; }
.contents { margin: 1.5rem 0; } .wide .contents td:first-child { width: 55%; }
.wide .contents td:first-child code { overflow-wrap: anywhere; }
ol { padding-left: 1.3rem; margin: .5rem 0; } li { margin: .35rem 0; }
label { display: block; font-weight: 600; margin-top: 1.5rem; }
input { display: block; width: 100%; font: inherit; color: inherit; background: var(--paper); padding: .5rem .75rem;
  margin: .35rem 0; border: 1px solid var(--line); border-radius: .4rem; }
.go { display: inline-block; font: inherit; font-weight: 600; color: #fff; background: var(--go); border: 0;
  border-radius: .4rem; padding: .6rem 1.2rem; margin-top: 1rem; text-decoration: none; cursor: pointer; }
.go:hover { filter: brightness(1.1); }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
@media (max-width: 40rem) { .wide tr { display: block; border-top: 1px solid var(--line); padding: .45rem 0; }
  .wide td, .wide td:first-child, .wide .contents td:first-child { display: block; width: auto; border: 0;
  padding: 0; } }
@media (max-width: 36rem) { body { padding: 1rem .75rem; } main { padding: 1.5rem 1.25rem; }
  .go { width: 100%; text-align: center; } }
"""
_DIGEST = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()


def headers(*form_targets: str) -> dict[str, str]:
    """Returns the headers of every page.

    Args:
        form_targets: allowed targets of forms, redirects included, as origins or 'self'; default none.
    """
    targets = " ".join(form_targets) or "'none'"
    return {
        "Content-Security-Policy": f"default-src 'none'; style-src 'sha256-{_DIGEST}'; base-uri 'none'; "
        f"form-action {targets}; frame-ancestors 'none'",
        "Cache-Control": "no-store",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }


def page(title: str, body: str, *, beside: str = "", wide: bool = False) -> str:
    """Returns a whole page.

    Args:
        title: text.
        body: HTML.
        beside: text at the top right.
        wide: True for reference pages with tables.
    """
    kind = ' class="wide"' if wide else ""
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)} · ghapp</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head>'
        f"<body><header{kind}><b>ghapp</b><span>{escape(beside)}</span></header>"
        f"<main{kind}><h1>{escape(title)}</h1>{body}</main></body></html>"
    )
