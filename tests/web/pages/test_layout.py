"""Templates: what they escape, what they may load, and that a distribution has them."""

from __future__ import annotations

import base64
import hashlib
import re
import tomllib
from pathlib import Path

import pytest
from jinja2 import UndefinedError

import ghapp
from ghapp.web.openapi.description import description
from ghapp.web.pages.docs import page, pieces
from ghapp.web.pages.layout import headers, render

PACKAGE = Path(ghapp.__file__).parent
TEMPLATES = PACKAGE / "web" / "pages" / "templates"
FAILED = {"title": "<b>", "detail": "\"'><script>alert(1)</script>", "again": False}


def test_values_are_escaped():
    html = render("setup/failed.html", **FAILED)
    assert "<script" not in html
    assert "<title>&lt;b&gt; · ghapp</title>" in html
    assert "&#34;&#39;&gt;&lt;script&gt;alert(1)&lt;/script&gt;" in html


def test_a_value_that_is_missing_is_an_error():
    with pytest.raises(UndefinedError):
        render("setup/failed.html", title="a", detail="b")


def test_the_policy_permits_the_style_of_the_page_and_nothing_else():
    style = re.search("<style>(.*?)</style>", render("setup/failed.html", **FAILED), re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = headers()["Content-Security-Policy"]
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


@pytest.mark.parametrize("template", sorted(TEMPLATES.rglob("*.html")), ids=lambda path: path.stem)
def test_a_template_has_no_script_no_inline_style_and_trusts_no_value(template):
    text = template.read_text()
    assert not re.search(r"<script|\sstyle=|\son\w+=|\|\s*safe|autoescape|https?://[^…]", text)


def test_the_distribution_has_all_templates():
    project = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())
    globs = project["tool"]["setuptools"]["package-data"]["ghapp"]
    packaged = {path for pattern in globs for path in PACKAGE.glob(pattern) if path.is_file()}
    assert {path for path in TEMPLATES.rglob("*") if path.is_file()} <= packaged


def test_a_text_is_split_into_plain_text_code_and_names_of_schemas():
    assert list(pieces("see `a <b>` or [Health].")) == [
        ("text", "see "),
        ("code", "a <b>"),
        ("text", " or "),
        ("schema", "Health"),
        ("text", "."),
    ]


def test_each_schema_that_the_reference_mentions_is_a_link_to_its_place():
    html = page(description())
    linked, places = set(re.findall('href="#([^"]+)"', html)), set(re.findall('id="([^"]+)"', html))
    assert linked <= places
    assert description()["components"]["schemas"].keys() <= places
