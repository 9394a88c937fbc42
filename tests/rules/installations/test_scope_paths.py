"""Addresses of scopes in paths: one segment, and the two other forms that are understood."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote, unquote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ghapp.installations.scope import Scope
from ghapp.installations.scope_paths import ScopePaths, address_in, path_segment

ROUTES = [
    "/v1/orgs",
    "/v1/orgs/{org:scope}/runners",
    "/v1/orgs/{org:scope}/runners/{runner_id}/health",
    "/v1/orgs/{org:scope}/jobs",
    "/orgs/{org:scope}",
    "/orgs/{org:scope}/history",
]
PATHS = ScopePaths(ROUTES)

login = st.from_regex(r"[A-Za-z0-9](-?[A-Za-z0-9]){0,38}", fullmatch=True).filter(lambda each: each != "enterprises")
name = st.from_regex(r"[A-Za-z0-9._-]{1,100}", fullmatch=True).filter(lambda each: each not in (".", ".."))
address = st.one_of(login, st.builds("{}/{}".format, login, name), st.builds("enterprises/{}".format, login))
below = st.sampled_from(["", "/", "/runners", "/runners/4/health", "/runners/a%2Fb/alive", "/jobs", "/history", "/x/y"])


@pytest.mark.parametrize(
    ("requested", "served"),
    [
        ("/v1/orgs/acme%2Fapi/runners", "/v1/orgs/acme~api/runners"),
        ("/v1/orgs/acme%2fapi/runners/a%2Fb/alive", "/v1/orgs/acme~api/runners/a%2Fb/alive"),
        ("/v1/orgs/acme%2Frunners/runners", "/v1/orgs/acme~runners/runners"),
        ("/orgs/enterprises%2Facme-corp", "/orgs/enterprises~acme-corp"),
        ("/v1/orgs/acme/api/runners/4/health", "/v1/orgs/acme~api/runners/4/health"),
        ("/v1/orgs/acme/.github/jobs", "/v1/orgs/acme~.github/jobs"),
        ("/v1/orgs/acme/history/jobs", "/v1/orgs/acme~history/jobs"),  # of pages, not of the API of these routes
        ("/v1/orgs/enterprises/jobs/jobs", "/v1/orgs/enterprises~jobs/jobs"),
        ("/orgs/acme/api", "/orgs/acme~api"),
        ("/orgs/acme/api/", "/orgs/acme~api/"),
    ],
)
def test_encoded_and_plain_addresses_become_one_segment(requested, served):
    assert PATHS.readdressed(requested).raw_path == served


@pytest.mark.parametrize(
    "requested",
    [
        "/v1/orgs",
        "/v1/orgs/",
        "/v1/orgs/acme",
        "/v1/orgs/acme/",
        "/v1/orgs/acme/runners",
        "/v1/orgs/acme/runners/health",
        "/v1/orgs/acme/runners/runners/health",  # plain `acme/runners` is ambiguous: the runners of acme
        "/v1/orgs/acme/runners/a%2Fb/alive",
        "/v1/orgs/acme~api/runners",
        "/v1/orgs/acme~api/x",
        "/v1/orgs/acme.17/x/runners",  # a name here of an organization whose login another one had
        "/v1/orgs/acme/../x",
        "/v1/orgs/acme/a b/x",
        "/v1/orgs/enterprises",
        "/v1/deliveries/dead",
        "/system/replay/1",
        "/",
        "",
    ],
)
def test_other_paths_stay(requested):
    assert PATHS.readdressed(requested) is None


@given(address)
@example("acme/.github")
@example("acme/-x")
@example("acme/a.b")
@example("acme/runners")
def test_a_segment_is_the_address_for_browsers_proxies_and_us(address):
    segment = path_segment(address)
    assert "/" not in segment
    assert unquote(segment) == segment == quote(segment)
    assert address_in(segment) == address


@given(address, below, st.sampled_from(["/v1/orgs/", "/orgs/"]))
def test_one_segment_stays_what_it_is(address, below, prefix):
    if not (address.lower() == "enterprises" or "/" in address or _begins_address(address, below, prefix)):
        assert PATHS.readdressed(f"{prefix}{path_segment(address)}{below}") is None
    if "/" in address:
        assert PATHS.readdressed(f"{prefix}{path_segment(address)}{below}") is None


@given(address, below, st.sampled_from(["/v1/orgs/", "/orgs/"]))
def test_each_form_is_read_as_the_address_or_not_at_all(address, below, prefix):
    canonical = f"{prefix}{path_segment(address)}{below}"
    if "/" in address:
        encoded = PATHS.readdressed(f"{prefix}{quote(address, safe='')}{below}")
        assert (encoded.raw_path, encoded.is_shorter) == (canonical, False)
        plain = PATHS.readdressed(f"{prefix}{address}{below}")
        assert plain in (None, (canonical, True))


def test_addresses_are_written_into_paths_by_path_segment_alone():
    """`quote` makes `acme%2Fapi` of an address, which many proxies refuse or decode."""
    other_ways = re.compile(r"quote\([\w.]*\borg\b|f[\"'][^\"'\n]*orgs/\{(?!path_segment)")
    sources = [
        each for each in (*Path("ghapp").rglob("*.py"), *Path("jobs").rglob("*.py")) if "sandbox" not in each.parts
    ]
    found = [str(each) for each in sources if each.parts[1] != "github" and other_ways.search(each.read_text())]
    assert found == ["jobs/events/publish.py"], "the source of events is no path of ours"


def _begins_address(login, below, prefix):
    """True if a login and what is below it are the plain address of another scope."""
    words = {"/v1/orgs/": {"runners", "jobs"}, "/orgs/": {"history"}}[prefix]
    second = below.strip("/").partition("/")[0]
    return bool(second) and second not in words and Scope.parse(f"{login}/{second}") is not None
