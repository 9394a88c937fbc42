"""A namespace's pods: what the snapshot shows, while the deaths behind it are still being recorded."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from ghapp.cluster.watch import cancel_tasks
from ghapp.cluster.watch_events import Listed, WatchChange
from ghapp.decoding import LeftOut
from ghapp.pods.end_store import PodEnd, PodEnds
from ghapp.pods.pod import Container, Ended, Pod
from ghapp.pods.store import PodChange, Pods
from ghapp.settings import Settings
from ghapp.store.stores import stores_over
from jobs.deaths.death_recorder import DeathRecorder, RecordedEnd
from jobs.pods import pod_cache
from jobs.pods.pod_cache import PodCache

NS, STARTED_AT, ENDED_AT = "runners", 1_790_000_000.0, 1_790_000_600.0


def running(name, version="1", **changes):
    runner = Container("runner", running_since=STARTED_AT)
    return Pod(NS, name, f"uid-{name}", version, STARTED_AT, runner=runner, container="runner")._replace(**changes)


def ended(name, version="2", code=1):
    return running(name, version, runner=Container("runner", ended=Ended(code, finished_at=ENDED_AT)))


def modified(pod):
    return WatchChange("modified", pod, pod.version)


def deleted(pod):
    return WatchChange("deleted", pod, pod.version)


BOOKMARK = WatchChange("bookmark", None, "9")


class Recorder(DeathRecorder):
    """Records nothing but the calls, once `may_record` lets it."""

    __slots__ = ("may_record", "recorded")

    def __init__(self, redis):
        super().__init__(Settings.read({}), None, stores_over(redis), None)
        object.__setattr__(self, "may_record", asyncio.Event().wait)
        object.__setattr__(self, "recorded", [])

    async def check_log_rights(self, namespace):
        return False

    def lets(self, wait):
        object.__setattr__(self, "may_record", wait)

    async def record_end(self, pod):
        await self.may_record()
        self.recorded.append(PodEnd(pod))
        return RecordedEnd(is_new=True)

    async def record_vanished(self, pod, found_at=None):
        await self.may_record()
        self.recorded.append(PodEnd(pod, vanished=True))
        return True


@pytest.fixture
def recorder(redis):
    return Recorder(redis)


@asynccontextmanager
async def watching(recorder, *events, leads=lambda: True):
    """A cache whose watch shows these events, one after the other, and then no more."""

    class Scripted(PodCache):
        async def _follow(self):
            for each in events:
                yield each
            await asyncio.Event().wait()

    task = asyncio.create_task(Scripted(NS, recorder, leads).run())
    try:
        yield task
    finally:
        await cancel_tasks([task])


async def until(holds):
    async with asyncio.timeout(20):
        while not (found := await holds()):  # noqa: ASYNC110 - Redis sends no notice
            await asyncio.sleep(0.001)
        return found


async def shown(redis):
    return {each.name: each.version for each in await Pods(redis).known(NS)}


async def left(redis):
    return [each.end for each in await PodEnds(redis).unrecorded(NS, None, 100)]


async def none_left(redis):
    return not await PodEnds(redis).left(NS)


async def some_commands_later(redis):
    for _ in range(50):
        await redis.ping()


async def test_changes_are_shown_while_the_ends_before_them_are_still_being_recorded(recorder, redis):
    first = Listed([running("a"), running("b"), running("c")], "1")
    changes = [modified(ended("a")), deleted(running("b", "3")), modified(running("c", "4"))]
    async with watching(recorder, first, *changes):
        await until(lambda: _equals(shown(redis), {"a": "2", "c": "4"}))
        assert recorder.recorded == []
        assert await left(redis) == [PodEnd(ended("a")), PodEnd(running("b", "3"), vanished=True)]


async def _equals(reading, value):
    return await reading == value


async def test_a_list_is_shown_while_the_ends_that_it_shows_are_still_being_recorded(recorder, redis):
    await Pods(redis).replace_pods(NS, [running("a"), running("b"), running("c")], STARTED_AT)
    async with watching(recorder, Listed([ended("a"), running("c")], "5")):
        await until(lambda: _equals(shown(redis), {"a": "2", "c": "1"}))
        assert recorder.recorded == []
        assert await left(redis) == [PodEnd(ended("a")), PodEnd(running("b"), vanished=True)]


UNREADABLE = LeftOut("pod", "items[0].status", "odd", is_row=True, row={"metadata": {"uid": running("a").uid}})
UNNAMED = LeftOut("pod", "items[0].metadata", "odd", is_row=True, row={})


@pytest.mark.parametrize(("odd", "lost"), [(UNREADABLE, ["b"]), (UNNAMED, [])], ids=["with its uid", "without a uid"])
async def test_a_pod_that_cannot_be_read_has_not_ended(recorder, redis, odd, lost):
    await Pods(redis).replace_pods(NS, [running("a"), running("b")], STARTED_AT)
    async with watching(recorder, Listed([running("c")], "5", None, (odd,))):
        await until(lambda: _shows(redis, "c"))
        assert [each.pod.name for each in await left(redis)] == lost
        assert (await shown(redis)).keys() == {"a", "b", "c"} - set(lost)


async def _shows(redis, name):
    return name in await shown(redis)


async def test_ends_that_a_killed_watch_left_are_recorded_by_the_next_one_though_nothing_shows_them(recorder, redis):
    async with watching(
        recorder, Listed([running("a"), running("b")], "1"), modified(ended("a")), deleted(running("b"))
    ):
        await until(lambda: _has_ends(redis, 2))
    recorder.lets(_at_once)
    for _ in range(2):
        async with watching(recorder, Listed([], "5")):
            await until(lambda: none_left(redis))
    assert recorder.recorded == [PodEnd(ended("a")), PodEnd(running("b"), vanished=True)]


async def _at_once():
    """Lets the recorder record."""


async def _has_ends(redis, count):
    return await PodEnds(redis).left(NS) == count


async def test_ends_of_two_pods_are_recorded_at_the_same_time(recorder, redis):
    recorder.lets(asyncio.Barrier(2).wait)
    async with watching(recorder, Listed([ended("a"), ended("b")], "1")):
        await until(lambda: _any(recorder.recorded))
        await until(lambda: none_left(redis))
    assert sorted(each.pod.name for each in recorder.recorded) == ["a", "b"]


async def test_ends_of_one_pod_are_recorded_in_order(recorder, redis):
    recorder.lets(_at_once)
    exits = [modified(ended("a", str(number), code=number)) for number in range(2, 9)]
    async with watching(recorder, Listed([running("a")], "1"), *exits):
        await until(lambda: _is_shown(redis, "a", "8"))
        await until(lambda: none_left(redis))
    assert [each.pod.ended.exit_code for each in recorder.recorded] == [*range(2, 9)]


async def _is_shown(redis, name, version):
    return (await shown(redis)).get(name) == version


async def test_an_end_is_stored_once_however_often_it_is_shown(recorder, redis):
    again = [modified(ended("a", str(number))) for number in range(2, 5)]
    async with watching(recorder, Listed([running("a")], "1"), *again, Listed([ended("a", "5")], "5")):
        await until(lambda: _is_shown(redis, "a", "5"))
    assert await left(redis) == [PodEnd(ended("a"))]


async def test_the_deletion_of_a_pod_whose_end_was_shown_is_no_second_end(recorder, redis):
    async with watching(recorder, Listed([running("a")], "1"), modified(ended("a")), deleted(ended("a", "3"))):
        await until(lambda: _has_ends(redis, 1))
        await until(lambda: _equals(shown(redis), {}))
    assert await left(redis) == [PodEnd(ended("a"))]


@pytest.mark.parametrize(
    ("last", "end"),
    [
        pytest.param(ended("a", "3"), PodEnd(ended("a", "3")), id="its last state shows the end"),
        pytest.param(running("a", "3"), PodEnd(running("a", "3"), vanished=True), id="it was still running"),
        pytest.param(
            running("a", "3", runner=None), PodEnd(running("a"), vanished=True), id="its last state has no container"
        ),
    ],
)
async def test_the_deletion_of_a_pod_without_a_known_end_is_stored_with_its_last_useful_state(
    recorder, redis, last, end
):
    async with watching(recorder, Listed([running("a")], "1"), deleted(last)):
        await until(lambda: _has_ends(redis, 1))
    assert await shown(redis) == {}
    assert await left(redis) == [end]


async def test_a_bookmark_is_stored_after_all_changes_before_it(recorder, redis, monkeypatch):
    """It makes the view current: no change may be missing then."""
    steps = []

    def noted(name):
        original = getattr(Pods, name)

        async def step(self, namespace, what, *more):
            steps.append((name, [each.pod.name for each in what] if name == "record" else None))
            return await original(self, namespace, what, *more)

        monkeypatch.setattr(Pods, name, step)

    noted("record")
    noted("touch_pods")
    changes = [modified(running(name, "2")) for name in "ab"]
    async with watching(recorder, Listed([running("a"), running("b")], "1"), *changes, BOOKMARK):
        await until(lambda: _any(name == "touch_pods" for name, _ in steps))
    assert [name for names in [each for _, each in steps[:-1]] for name in names] == ["a", "b"]
    assert steps[-1] == ("touch_pods", None)


async def _any(found):
    return any(found)


async def test_with_too_many_unrecorded_ends_no_further_events_are_taken(recorder, redis, monkeypatch):
    monkeypatch.setattr(pod_cache, "MOST_UNRECORDED", 1)
    monkeypatch.setattr(pod_cache, "MOST_CHANGES", 1)
    may_record = asyncio.Event()
    recorder.lets(may_record.wait)
    names = "abcde"
    async with watching(recorder, Listed([], "0"), *(modified(ended(name)) for name in names)):
        await until(lambda: _has_ends(redis, 2))
        await some_commands_later(redis)
        assert set(await shown(redis)) == {"a", "b"}
        may_record.set()
        await until(lambda: _equals(shown(redis), dict.fromkeys(names, "2")))
        await until(lambda: none_left(redis))
    assert sorted(each.pod.name for each in recorder.recorded) == [*names]


async def test_a_watch_that_does_not_lead_stores_and_records_nothing(recorder, redis):
    await Pods(redis).record(NS, [PodChange(running("old"), deleted=True, end=PodEnd(running("old"), vanished=True))])
    recorder.lets(_at_once)
    async with watching(recorder, Listed([ended("a")], "1"), leads=lambda: False) as task:
        async with asyncio.timeout(20):
            await task
    assert recorder.recorded == []
    assert await left(redis) == [PodEnd(running("old"), vanished=True)]
    assert await shown(redis) == {}
