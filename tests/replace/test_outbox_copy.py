"""The copy of the outbox gives the backlog what may be sent, and forgets what left, whatever is in flight meanwhile."""

from __future__ import annotations

import pytest

from ghapp.replace.event_backlog import OutboxCopy, OutboxGroup

NEWS, REQUESTS = OutboxGroup(7, "linux"), OutboxGroup(7, "linux", is_request=True)
URL, OTHER = "https://controller.test/", "https://other.test/"


def copy_of(*event_ids, group=NEWS, url=URL):
    outbox = OutboxCopy()
    for at, event_id in enumerate(event_ids):
        outbox.add(event_id, group, float(at))
    outbox.place({group: url})
    return outbox


def test_what_is_added_is_sent_oldest_first():
    outbox = copy_of("e1", "e2")
    outbox.add("e0", NEWS, -1.0)
    outbox.place({NEWS: URL})
    assert outbox.backlog.send(0.0) == ["e0", "e1", "e2"]


def test_what_is_held_back_is_not_in_the_backlog_and_is_sent_when_that_ends():
    outbox = copy_of("r1", group=REQUESTS, url=None)
    assert outbox.backlog.send(0.0) == []
    outbox.place({REQUESTS: URL})
    assert outbox.backlog.send(0.0) == ["r1"]


def test_a_group_without_a_place_is_held_back_until_it_has_one():
    outbox = copy_of("e1")
    outbox.add("r1", REQUESTS, 0.0)
    outbox.place({NEWS: URL})
    assert outbox.backlog.send(0.0) == ["e1"]
    outbox.place({NEWS: URL, REQUESTS: OTHER})
    assert outbox.backlog.send(0.0) == ["r1"]


@pytest.mark.parametrize(("url", "sent_next"), [(OTHER, ["e1"]), (None, [])])
def test_an_event_in_flight_changes_its_place_when_it_has_landed(url, sent_next):
    outbox = copy_of("e1")
    assert outbox.backlog.send(0.0) == ["e1"]
    outbox.place({NEWS: url})
    assert outbox.backlog.waiting["e1"].url == URL
    outbox.backlog.refused("e1", 0.0)
    outbox.place({NEWS: url})
    assert outbox.backlog.send(100.0) == sent_next
    assert {each.url for each in outbox.backlog.waiting.values()} == ({url} if url else set())


def test_an_event_that_left_while_it_was_in_flight_is_forgotten_when_it_has_landed():
    outbox = copy_of("e1", "e2")
    assert outbox.backlog.send(0.0) == ["e1", "e2"]
    outbox.keep(["e2"])
    outbox.place({NEWS: URL})
    assert "e1" not in outbox
    outbox.backlog.put_off("e1", 0.0)
    outbox.place({NEWS: URL})
    assert set(outbox.backlog.waiting) == {"e2"}


def test_an_event_that_was_accepted_and_is_added_again_is_sent_again():
    outbox = copy_of("e1")
    outbox.backlog.send(0.0)
    outbox.backlog.accepted("e1")
    outbox.remove("e1")
    outbox.add("e1", NEWS, 0.0)
    outbox.place({NEWS: URL})
    assert outbox.backlog.send(0.0) == ["e1"]


def test_nothing_is_left_of_what_left():
    outbox = copy_of("e1", "e2")
    outbox.keep([])
    outbox.place({})
    assert (outbox.groups, outbox.backlog.waiting, dict(outbox.backlog.by_url)) == ({}, {}, {})
    outbox.remove("e1")
