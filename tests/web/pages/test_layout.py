"""Templates: escaping, the content security policy, and that the distribution contains them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from jinja2 import UndefinedError

import ghapp
from ghapp.web.openapi import description
from ghapp.web.pages import layout
from ghapp.web.pages.docs import page, pieces
from ghapp.web.pages.layout import headers, render, root_of
from ghapp.web.pages.static_files import address_of

PACKAGE = Path(ghapp.__file__).parent
TEMPLATES, STATIC = (PACKAGE / "web" / "pages" / folder for folder in ("templates", "static"))
FAILED = {"title": "<b>", "detail": "\"'><script>alert(1)</script>", "again": False}


def test_values_are_escaped():
    html = render("setup/failed.html", **FAILED)
    assert "<script" not in html
    assert "<title>&lt;b&gt; · ghapp</title>" in html
    assert "&#34;&#39;&gt;&lt;script&gt;alert(1)&lt;/script&gt;" in html


def test_a_value_that_is_missing_is_an_error():
    with pytest.raises(UndefinedError):
        render("setup/failed.html", title="a", detail="b")


def test_the_policy_of_a_page_without_scripts_permits_only_our_stylesheet_and_icon():
    assert headers()["Content-Security-Policy"] == (
        "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )


def test_the_policy_of_a_page_with_scripts_permits_only_our_scripts_and_no_inline_code():
    assert headers("'self'", scripts=True)["Content-Security-Policy"] == (
        "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    )


@pytest.mark.parametrize("template", sorted(TEMPLATES.rglob("*.html")), ids=lambda path: path.stem)
def test_a_template_has_no_inline_script_no_inline_style_and_trusts_no_value(template):
    text = re.sub(r'<script src="{{ root }}{{ static\("[a-z.]+"\) }}" defer></script>', "", template.read_text())
    assert not re.search(r"<script|<style|\sstyle=|\son\w+=|\|\s*safe|autoescape|https?://[^…]", text)


@pytest.mark.parametrize(
    ("path", "root"), [("/", ""), ("/setup", ""), ("/orgs/acme", "../"), ("/orgs/acme/runners/1", "../../../")]
)
def test_the_relative_path_to_the_root_follows_the_depth_of_the_page(path, root):
    assert root_of(path) == root


def test_a_nested_page_links_the_stylesheet():
    assert f'href="../{address_of("style.css")}"' in render("setup/failed.html", **FAILED)
    assert f'href="{address_of("style.css")}"' in render("setup/key_needed.html", wrong=False)


async def test_a_static_file_is_cached_for_a_year_at_the_address_with_its_hash(http):
    answer = await http.get(address_of("style.css"))
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/css; charset=utf-8")
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"


@pytest.mark.parametrize("path", ["static/0123456789abcdef/style.css", "static//style.css", "static/0/../layout.py"])
async def test_another_address_has_no_static_file_and_is_not_cached(http, path):
    answer = await http.get(path)
    assert answer.status_code == 404


def test_each_third_party_file_has_its_licence_and_a_notice():
    notice = (PACKAGE.parent / "NOTICE").read_text()
    assert "htmx.min.js" in notice
    assert "htmx.LICENSE" in notice
    assert (STATIC / "htmx.LICENSE").read_text().startswith("Zero-Clause BSD")
    assert "uplot.min.js" in notice
    assert "uplot.LICENSE" in notice
    assert (STATIC / "uplot.LICENSE").read_text().startswith("The MIT License")


def test_the_distribution_has_all_templates_and_static_files():
    project = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())
    globs = project["tool"]["setuptools"]["package-data"]["ghapp"]
    packaged = {path for pattern in globs for path in PACKAGE.glob(pattern) if path.is_file()}
    assert {path for folder in (TEMPLATES, STATIC) for path in folder.rglob("*") if path.is_file()} <= packaged


def test_a_text_is_split_into_plain_text_code_and_names_of_schemas():
    assert list(pieces("see `a <b>` or [Health].")) == [
        ("text", "see "),
        ("code", "a <b>"),
        ("text", " or "),
        ("schema", "Health"),
        ("text", "."),
    ]


def test_each_schema_that_the_reference_mentions_is_a_link_to_its_place():
    html = page(description(), "http://127.0.0.1:8000")
    linked, places = set(re.findall('href="#([^"]+)"', html)), set(re.findall('id="([^"]+)"', html))
    assert linked <= places
    assert description()["components"]["schemas"].keys() <= places


@pytest.mark.parametrize(
    ("template", "shown"),
    [
        ("{{ odd }}", "\ufffd&lt;i&gt;\ufffd"),
        ("{{ [odd, odd] | join(', ') }}", "\ufffd&lt;i&gt;\ufffd, \ufffd&lt;i&gt;\ufffd"),
        ("{{ odd ~ '/x' }}", "\ufffd&lt;i&gt;\ufffd/x"),
        (
            "{% macro part(text) %}<b>{{ text }}</b>{% endmacro %}{{ part(odd) ~ odd }}",
            "<b>\ufffd&lt;i&gt;\ufffd</b>\ufffd&lt;i&gt;\ufffd",
        ),
        ("{% set part %}<p>{{ odd }}</p>{% endset %}{{ part }}", "<p>\ufffd&lt;i&gt;\ufffd</p>"),
        ("{{ lines }}", "a\n\tb"),
        ("{{ number }}", "3"),
    ],
)
def test_a_value_is_escaped_and_seen_however_it_is_put_together(template, shown):
    values = {"odd": "\x1b<i>\u202e", "lines": "a\n\tb", "number": 3}
    assert layout._TEMPLATES.from_string(template).render(values) == shown
