"""Renders our HTML pages from templates: one stylesheet, no scripts, no external resources.

Each page extends `templates/base.html`. Values are escaped; a name that a template uses and that is not given is an
error.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def render(template: str, /, **values: Any) -> str:
    """Returns a page; the comment at the top of its template names the values."""
    return _TEMPLATES.get_template(template).render(values)


def headers(*form_targets: str) -> dict[str, str]:
    """Returns the headers of every page.

    Args:
        form_targets: allowed targets of forms, redirects included, as origins or 'self'; default none.
    """
    targets = " ".join(form_targets) or "'none'"
    return {
        "Content-Security-Policy": f"default-src 'none'; style-src 'sha256-{_style_digest()}'; base-uri 'none'; "
        f"form-action {targets}; frame-ancestors 'none'",
        "Cache-Control": "no-store",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }


@cache
def _style_digest() -> str:
    """Returns the digest of the stylesheet as `base.html` includes it."""
    return base64.b64encode(hashlib.sha256(render("style.css").encode()).digest()).decode()
