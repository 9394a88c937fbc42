"""Names of outsiders in what each command prints: a row each, no character that is not seen, no markup, valid JSON."""

from __future__ import annotations

import json
import tomllib

import pytest

from ghapp.installations.installation import Installation
from ghapp.installations.pool_matching import LONGEST_POOL
from ghapp.store.tokens import Tokens
from ghapp.untrusted_text import visible
from tests.cli.conftest import ACME, Known
from tests.cli.test_cli import one_line
from tests.support import nasty_fleet
from tests.support.nasty_fleet import FIRST_JOB, FIRST_RUNNER
from tests.support.nasty_names import NASTY, PLAIN, not_seen

SHORT, SHORT_PLAIN = NASTY[:-1], PLAIN[:-1]
"""Without the name that no table shows whole, for what counts lines."""

TABLES = {
    "runners": ("runners", "--all"),
    "jobs": ("jobs", "--limit", "100"),
    "deaths": ("deaths",),
    "audit": ("audit", "--limit", "100"),
    "dead letters": ("deliveries", "dead"),
    "tokens": ("token", "list"),
}


@pytest.fixture
async def fleet_of(redis, redis_url, tmp_path):
    """Stores the fleet of these names, and returns a way to run commands on it."""
    known = Known(redis, redis_url, tmp_path)

    async def store(names):
        await nasty_fleet.store(redis, Installation(ACME, "acme", 1), names, known.now)
        for name in names:
            await Tokens(redis).create(name, (name,), ("read",), known.now)
        return known

    return store


async def printed(known, *words):
    done = await known.ask(*words)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("words", TABLES.values(), ids=TABLES)
async def test_a_table_has_a_row_for_each_name_and_shows_the_name_itself(fleet_of, redis, words):
    lines = {}
    for names in (SHORT_PLAIN, SHORT):
        known = await fleet_of(names)
        text = await printed(known, *words)
        assert not_seen(text) == {}
        lines[names] = len(text.splitlines())
        assert [name for name in names if visible(name).strip() not in text] == []
        await redis.flushdb()
    assert lines[SHORT] == lines[SHORT_PLAIN]


@pytest.mark.parametrize("words", [*TABLES.values(), ("doctor",), ("why", "acme", str(FIRST_JOB))], ids=" ".join)
async def test_json_has_no_character_that_a_terminal_would_interpret(fleet_of, words):
    known = await fleet_of(NASTY)
    done = await known.ask(*(word for word in words if word != "--all"), "--json")
    assert not_seen(done.stdout) == {}
    json.loads(done.stdout)


async def test_one_runner_one_job_and_what_holds_them_are_shown_in_lines_of_text(fleet_of):
    known = await fleet_of(NASTY)
    for number, name in enumerate(SHORT):
        if number % 8 == 0:  # one process each
            for words in (("explain", "acme", str(FIRST_RUNNER + number)), ("why", "acme", str(FIRST_JOB + number))):
                text = await printed(known, *words)
                assert not_seen(text) == {}
                assert visible(name).strip() in text
    assert not_seen((await known.ask("doctor")).stdout) == {}


async def test_the_suggested_configuration_is_visible_and_has_the_names_as_they_are(fleet_of):
    text = await printed(await fleet_of(NASTY), "init")
    assert not_seen(text) == {}
    pools = tomllib.loads(text)["pools"]
    assert not_seen("".join(pool["name"] for pool in pools), "") == {}
    assert max(len(pool["name"]) for pool in pools) == LONGEST_POOL
    labels = [label for pool in pools for label in pool["labels"]]
    assert sorted(labels) == sorted(name.lower() for name in NASTY)


async def test_a_resume_is_a_line_for_each_pool_and_an_error_is_one_line(fleet_of):
    known = await fleet_of(NASTY)
    text = await printed(known, "resume", "acme")
    assert not_seen(text) == {}
    assert sum(line.startswith("resumed: acme, pool ") for line in text.splitlines()) == len(NASTY)
    assert not_seen(one_line(await known.ask("pause", "acme", "--pool", "nope", "--why", "x"), 2)) == {}
