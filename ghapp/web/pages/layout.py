"""Renders our HTML pages from templates; pages load only our own static files, and have no inline script or style.

Each page extends `templates/base.html`. Values are escaped, and characters that are not seen are replaced. A name that
a template uses and that is not given is an error. All addresses in pages are relative, so that they also work under a
path of a proxy.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ghapp.installations.scope_paths import path_segment
from ghapp.untrusted_text import visible_lines
from ghapp.web.pages.audit_entries import LATEST
from ghapp.web.pages.static_files import address_of
from ghapp.web.pages.views.wording import linked_outcome


def _seen(value: Any) -> Any:
    """Returns a value without what is not seen: it could hide text, or show the rest of a line in another order."""
    if not isinstance(value, str):
        return value
    shown = visible_lines(str(value))
    return value if shown == value else type(value)(shown)  # what is HTML stays so


_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    finalize=_seen,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.globals["static"] = address_of
_TEMPLATES.globals["latest_entries"] = LATEST
_TEMPLATES.globals["linked_outcome"] = linked_outcome
_TEMPLATES.filters["path_segment"] = path_segment


def render(template: str, /, **values: Any) -> str:
    """Returns a page; the comment at the top of its template names the values."""
    return _TEMPLATES.get_template(template).render(values)


def render_block(template: str, block: str, /, **values: Any) -> str:
    """Returns one block of a page, with which htmx replaces the same part of the page."""
    found = _TEMPLATES.get_template(template)
    return "".join(found.blocks[block](found.new_context(values)))


def root_of(path: str) -> str:
    """Returns the relative address of `/` for a page at this path, such as `../../` for `/orgs/acme`."""
    return "../" * (path.count("/") - 1)


def headers(*form_targets: str, scripts: bool = False) -> dict[str, str]:
    """Returns the headers of a page.

    Args:
        form_targets: allowed targets of forms, redirects included, as origins or 'self'; default none.
        scripts: True for a page that runs our own scripts, and fetches parts of itself.
    """
    targets = " ".join(form_targets) or "'none'"
    sources = (
        "default-src 'self'; object-src 'none'" if scripts else "default-src 'none'; style-src 'self'; img-src 'self'"
    )
    return {
        "Content-Security-Policy": f"{sources}; base-uri 'none'; form-action {targets}; frame-ancestors 'none'",
        "Cache-Control": "no-store",
        # Forms need it: with `no-referrer` browsers send `Origin: null`, which cannot be compared.
        "Referrer-Policy": "same-origin" if scripts else "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }
