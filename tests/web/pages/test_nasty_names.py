"""Names of outsiders on each page: its elements are those of a page of plain names, and all of its text is seen."""

from __future__ import annotations

from urllib.parse import quote, urlsplit

import pytest

from ghapp.installations.installation import Installation
from ghapp.installations.store import Installations
from tests.support import nasty_fleet
from tests.support.nasty_fleet import FIRST_JOB, FIRST_RUNNER
from tests.support.nasty_names import NASTY, PLAIN, addresses, not_seen, tags
from tests.web.conftest import NOW

ODD = "[/nope]\"><img src=x onerror='alert(1)'>\x1b[31m\u202e"
LAST = len(NASTY) - 1

PAGES = [
    "/",
    "/orgs/acme",
    "/orgs/acme/runners",
    f"/orgs/acme/runners/{FIRST_RUNNER}",
    "/orgs/acme/jobs",
    "/orgs/acme/deaths",
    "/orgs/acme/incidents",
    "/orgs/acme/incidents/3",
    "/orgs/acme/history",
    "/orgs/acme/github",
    "/orgs/acme/gate",
    "/orgs/acme/pause",
    "/system",
    "/docs",
    "/setup/installed",
]


async def page(browser, path):
    answer = await browser.get(path)
    assert answer.status_code == 200, path
    assert not_seen(answer.text, "\n\t") == {}, path
    for each in addresses(answer.text):
        parts = urlsplit(each)
        assert parts.scheme in ("", "http", "https"), each
        assert not parts.netloc or parts.netloc == "github.com" or parts.hostname == "127.0.0.1", each
    return answer.text


def _difference(one, other):
    return dict(one - other), dict(other - one)


@pytest.fixture
def stored(redis, fleet):
    """Stores a fleet of these names as acme's, and nothing else."""

    async def store(names):
        await redis.flushdb()
        await Installations(redis).put(Installation(fleet["globex"], "globex", 2))  # else `/` leads to acme
        installation = Installation(fleet["acme"], "acme", 1, {"checks": "write"})
        await nasty_fleet.store(redis, installation, names, NOW)

    return store


async def test_each_page_has_the_elements_of_a_page_of_plain_names(start, stored):
    found = {}
    for names in (PLAIN, NASTY):
        await stored(names)
        browser = start(client=False, has_key=True)  # with empty caches
        found[names] = {path: tags(await page(browser, path)) for path in PAGES}
    assert {path: _difference(found[NASTY][path], found[PLAIN][path]) for path in PAGES} == dict.fromkeys(
        PAGES, ({}, {})
    )


async def test_the_page_of_each_runner_job_and_death_has_the_elements_of_a_plain_one(start, stored):
    found = {}
    for names in (PLAIN, NASTY):
        await stored(names)
        browser = start(client=False, has_key=True)
        found[names] = [
            [
                tags(await page(browser, f"/orgs/acme/{kind}"))
                for kind in (f"runners/{FIRST_RUNNER + at}", f"jobs/{FIRST_JOB + at}")
            ]
            for at in range(LAST)
        ]
    assert [NASTY[at] for at in range(LAST) if found[NASTY][at] != found[PLAIN][at]] == []


async def test_what_a_visitor_asks_for_is_text_too(key_holder):
    for path in ("/orgs/acme/runners", "/orgs/acme/jobs", "/orgs/acme/deaths"):
        plain = await page(key_holder, f"{path}?text=x&pool=y&node=z")
        odd = await page(key_holder, f"{path}?" + "&".join(f"{each}={quote(ODD)}" for each in ("text", "pool", "node")))
        assert tags(odd) == tags(plain)
