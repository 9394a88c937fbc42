"""A scrape is answered at once where making an exposition takes long."""

from __future__ import annotations

import asyncio

import pytest

from ghapp.errors import StoreUnavailableError
from ghapp.web.api import expositions
from ghapp.web.api.expositions import Exposition, Expositions

TEXT = "text/plain"


class Maker:
    """Makes numbered expositions; each takes `seconds`."""

    def __init__(self, seconds=0.0):
        self.seconds, self.made, self.error = seconds, 0, None

    async def __call__(self):
        await asyncio.sleep(self.seconds)
        if self.error is not None:
            raise self.error
        self.made += 1
        return Exposition(b"%d" % self.made, TEXT)


async def body(of, make):
    return (await of.read(TEXT, make))[0].body


async def test_a_quick_exposition_is_made_for_each_scrape():
    of, make = Expositions(), Maker()
    assert [await body(of, make) for _ in range(3)] == [b"1", b"2", b"3"]


async def test_after_a_slow_one_scrapes_get_the_last_one_while_the_next_is_made(monkeypatch):
    monkeypatch.setattr(expositions, "LONG_SECONDS", 0.01)
    of, make = Expositions(), Maker(seconds=0.05)
    assert await body(of, make) == b"1"
    found, age = await of.read(TEXT, make)
    assert (found.body, make.made) == (b"1", 1), "it was not waited for"
    assert age >= 0
    await asyncio.sleep(0.1)
    assert await body(of, make) == b"2"


async def test_scrapes_at_the_same_time_share_one():
    of, make = Expositions(), Maker(seconds=0.01)
    assert set(await asyncio.gather(*(body(of, make) for _ in range(5)))) == {b"1"}
    assert make.made == 1


async def test_each_media_type_has_its_own():
    of, make = Expositions(), Maker()
    await of.read(TEXT, make)
    assert (await of.read("application/openmetrics-text", make))[0].body == b"2"


@pytest.mark.parametrize(("most_age", "waits"), [(60.0, False), (0.0, True)])
async def test_an_exposition_that_is_too_old_is_no_answer(monkeypatch, most_age, waits):
    monkeypatch.setattr(expositions, "LONG_SECONDS", -1.0)
    monkeypatch.setattr(expositions, "MOST_AGE_SECONDS", most_age)
    of, make = Expositions(), Maker()
    await body(of, make)
    await asyncio.sleep(0.01)
    assert await body(of, make) == (b"2" if waits else b"1")


async def test_while_redis_is_away_the_last_one_is_an_answer_until_it_is_too_old(monkeypatch):
    monkeypatch.setattr(expositions, "LONG_SECONDS", -1.0)
    of, make = Expositions(), Maker()
    await body(of, make)
    make.error = StoreUnavailableError("away")
    assert [await body(of, make) for _ in range(2)] == [b"1", b"1"]
    monkeypatch.setattr(expositions, "MOST_AGE_SECONDS", 0.0)
    await asyncio.sleep(0.01)
    with pytest.raises(StoreUnavailableError):
        await body(of, make)


async def test_a_scrape_that_would_wait_for_the_first_slow_one_gets_the_last_quick_one(monkeypatch):
    monkeypatch.setattr(expositions, "LONG_SECONDS", 0.02)
    of, make = Expositions(), Maker()
    assert await body(of, make) == b"1"
    make.seconds = 0.2  # a thousand installations were discovered meanwhile
    assert await body(of, make) == b"1"
    await asyncio.gather(*of._making.values())
    assert await body(of, make) == b"2", "which was made meanwhile"


async def test_one_that_is_prepared_is_the_answer_to_the_first_scrape(monkeypatch):
    monkeypatch.setattr(expositions, "LONG_SECONDS", -1.0)
    of, make = Expositions(), Maker()
    await of.prepare(TEXT, make)
    assert await body(of, make) == b"1"


@pytest.mark.parametrize(("scraped", "scraped_seconds", "made"), [(True, 600.0, 2), (True, 0.0, 1), (False, 600.0, 1)])
async def test_a_slow_one_is_made_again_before_it_is_too_old_as_long_as_scrapes_ask(
    monkeypatch, scraped, scraped_seconds, made
):
    monkeypatch.setattr(expositions, "LONG_SECONDS", -1.0)
    monkeypatch.setattr(expositions, "SCRAPED_SECONDS", scraped_seconds)
    of, make, due = Expositions(), Maker(), []
    monkeypatch.setattr(asyncio.get_running_loop(), "call_later", lambda _, *call: due.append(call))
    await (of.read if scraped else of.prepare)(TEXT, make)
    ((again, *args),) = due
    again(*args)
    await asyncio.gather(*of._making.values())
    assert make.made == made
    again(*args)
    await asyncio.gather(*of._making.values())
    assert make.made == made, "a newer one is not made again for the sake of an older one"


async def test_what_is_made_again_is_made_as_the_last_scrape_had_it_made(monkeypatch):
    """What was prepared is made of what was read at the start."""
    monkeypatch.setattr(expositions, "LONG_SECONDS", -1.0)
    of, at_start, later, due = Expositions(), Maker(), Maker(), []
    monkeypatch.setattr(asyncio.get_running_loop(), "call_later", lambda _, *call: due.append(call))
    await of.prepare(TEXT, at_start)
    later.error = StoreUnavailableError("away")
    assert await body(of, later) == b"1"
    await asyncio.gather(*of._making.values(), return_exceptions=True)
    ((again, *args),) = due
    later.error = None
    again(*args)
    await asyncio.gather(*of._making.values())
    assert (at_start.made, later.made) == (1, 1)
