"""A watch that is cut off between any two events misses nothing, against a strict stand-in for the API server."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from ghapp.cluster.watch import follow
from ghapp.cluster.watch_events import Listed, WatchChange, WatchFailure
from ghapp.errors import ClusterUnavailableError, ResourceVersionExpiredError

EVENTS = 9
"""Of `happens`; each is one write."""

LAST = "linux-last"


def happens(api) -> None:
    """Pods end and are removed a moment later; one is created and ends; the last one marks the end of the script."""
    control = api.control
    control.container_ends("runners", "linux-0", exit_code=137, reason="OOMKilled")
    control.vanish("runners", "linux-0")
    control.pod("runners", "linux-2")
    control.container_ends("runners", "linux-1", exit_code=1)
    control.container_ends("runners", "linux-2", exit_code=0)
    control.vanish("runners", "linux-1")
    control.vanish("runners", "linux-2")
    control.pod("runners", "linux-3")
    control.pod("runners", LAST)


EVERYTHING = [
    ("modified", "linux-0", 137),
    ("deleted", "linux-0", 137),
    ("added", "linux-2", None),
    ("modified", "linux-1", 1),
    ("modified", "linux-2", 0),
    ("deleted", "linux-1", 1),
    ("deleted", "linux-2", 0),
    ("added", "linux-3", None),
    ("added", LAST, None),
]


@pytest.fixture
def pods(api):
    api.control.pod("runners", "linux-0")
    api.control.pod("runners", "linux-1")
    api.control.pod("others", "linux-9")


async def at_once(_seconds: float) -> None:
    await asyncio.sleep(0)


async def seen_of(api, cluster, *, live: bool = True):
    """All that is seen until the last pod is there; what happens, happens after the first list.

    Live, it happens while a watch is open; else before there is one, so that it is all history.
    """
    seen, happened = [], False
    async with asyncio.timeout(30), aclosing(follow(cluster, "runners", sleep=at_once)) as events:
        following = asyncio.ensure_future(anext(events))
        while True:
            event = await following
            seen.append(event)
            if LAST in names_in(event):
                return seen
            following = asyncio.ensure_future(anext(events))
            if not happened:
                while live and not api.control.watches():  # noqa: ASYNC110 - the server is in another thread
                    await asyncio.sleep(0.001)
                happens(api)
                happened = True


def names_in(event) -> list[str]:
    match event:
        case Listed(items):
            return [pod.name for pod in items]
        case WatchChange(_, pod):
            return [pod.name] if pod else []
    return []


def changes_in(seen):
    """Changes in short; each once, for what was sent may be sent again."""
    changes = [
        (each.kind, each.found.name, each.found.ended.exit_code if each.found.ended else None)
        for each in seen
        if isinstance(each, WatchChange) and each.found
    ]
    return list(dict.fromkeys(changes))


def known(seen) -> set[str]:
    """The existing pods, from the events so far."""
    there: set[str] = set()
    for each in seen:
        match each:
            case Listed(items):
                there = {pod.name for pod in items}
            case WatchChange("deleted", pod):
                there.discard(pod.name)
            case WatchChange(_, pod) if pod:
                there.add(pod.name)
    return there


@pytest.mark.parametrize("live", [True, False], ids=["live", "history"])
async def test_an_unbroken_watch_sees_everything_once(api, cluster, pods, live):
    seen = await seen_of(api, cluster, live=live)
    assert isinstance(seen[0], Listed)
    assert changes_in(seen) == EVERYTHING
    assert len([each for each in seen if isinstance(each, WatchChange) and each.found]) == EVENTS


@pytest.mark.parametrize("after", range(1, EVENTS + 1))
@pytest.mark.parametrize("how", ["orderly", "broken", "reset", "half"])
@pytest.mark.parametrize("live", [True, False], ids=["live", "history"])
async def test_a_watch_that_is_cut_between_any_two_events_misses_none(api, cluster, pods, how, after, live):
    api.control.cut_watches_after(after, how)
    seen = await seen_of(api, cluster, live=live)
    assert changes_in(seen) == EVERYTHING
    assert len([each for each in seen if isinstance(each, Listed)]) == 1


@pytest.mark.parametrize("how", ["orderly", "broken", "half"])
async def test_a_watch_that_is_cut_after_every_event_misses_none(api, cluster, pods, how):
    api.control.cut_watches_after(1, how, times=None)
    assert changes_in(await seen_of(api, cluster)) == EVERYTHING


@pytest.mark.parametrize("after", range(1, EVENTS))
async def test_after_a_410_the_list_shows_what_vanished(api, cluster, pods, after):
    api.control.cut_watches_after(after, "expired")
    seen = await seen_of(api, cluster)
    assert known(seen) == {"linux-3", LAST}
    assert len([each for each in seen if isinstance(each, Listed)]) == 2


@pytest.mark.parametrize("by_http", [True, False], ids=["http", "event"])
async def test_a_version_that_is_dropped_without_a_watch_is_listed_again(api, cluster, pods, by_http):
    version = (await cluster.pods("runners")).version
    happens(api)
    api.control.forget_versions(by_http=by_http)
    with pytest.raises(ResourceVersionExpiredError):
        await anext(cluster.watch_pods("runners", version))


async def test_an_unavailable_cluster_is_reported_and_seen_again(api, cluster, pods):
    api.control.fails(503, times=3, verbs=["watch"])
    seen = await seen_of(api, cluster, live=False)
    assert [type(each.error) for each in seen if isinstance(each, WatchFailure)] == [ClusterUnavailableError] * 3
    assert changes_in(seen) == EVERYTHING


async def test_a_bookmark_moves_the_version_on(api, cluster, pods):
    version = (await cluster.pods("runners")).version
    api.control.pod("others", "linux-8")
    async with aclosing(cluster.watch_pods("runners", version)) as changes:
        following = asyncio.ensure_future(anext(changes))
        while not api.control.watches():  # noqa: ASYNC110 - the server is in another thread
            await asyncio.sleep(0.001)
        api.control.bookmark()
        assert await asyncio.wait_for(following, 20) == WatchChange("bookmark", None, str(api.control.version()))


async def test_a_watch_that_the_server_ends_ends(api, cluster, pods, monkeypatch):
    monkeypatch.setattr("ghapp.cluster.api.WATCH_SECONDS", 1)
    version = (await cluster.pods("runners")).version
    assert [change async for change in cluster.watch_pods("runners", version)] == [
        WatchChange("bookmark", None, version)
    ]


async def test_a_watch_is_closed_with_its_reader(api, cluster, pods):
    async with aclosing(follow(cluster, "runners")) as events:
        await anext(events)
        following = asyncio.ensure_future(anext(events))
        while not api.control.watches():  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        following.cancel()
        await asyncio.wait([following])
    async with asyncio.timeout(10):
        while api.control.watches():  # noqa: ASYNC110
            await asyncio.sleep(0.001)
