"""What is seen of a namespace, however the watch breaks. The cluster is scripted: the order of calls is the matter."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghapp.cluster.watch import (
    EXPIRED_IN_A_ROW,
    FIRST_PAUSE,
    LONGEST_PAUSE,
    RESUME_ATTEMPTS,
    WATCHES,
    follow,
    pause_after,
)
from ghapp.cluster.watch_events import Listed, WatchChange, WatchFailure
from ghapp.cluster.wire import pods
from ghapp.errors import (
    ClusterForbiddenError,
    ClusterUnavailableError,
    ConfigurationError,
    ResourceMissingError,
    ResourceVersionExpiredError,
)
from tests.cluster.shapes import encoded, pod

AWAY = ClusterUnavailableError("away")
GONE = ResourceVersionExpiredError("expired")
DENIED = ClusterForbiddenError("denied", verb="watch", resource="pods")


class Scripted:
    """Answers lists and watches in turn from a script, and notes what it was asked; stops when that is over."""

    def __init__(self, *script: Any) -> None:
        self.script, self.asked, self.pauses = list(script), [], []

    async def pods(self, namespace):
        self.asked.append("list")
        answer = self._next()
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def watch_pods(self, namespace, version):
        self.asked.append(f"watch {version}")
        for each in self._next():
            if isinstance(each, Exception):
                raise each
            yield each

    async def rest(self, seconds):
        self.pauses.append(seconds)

    def _next(self):
        if not self.script:
            raise Over
        return self.script.pop(0)

    async def play(self):
        """Everything that is seen until the script is over."""
        seen = []
        async with aclosing(follow(self, "runners", sleep=self.rest)) as events:
            try:
                async for event in events:
                    seen.append(event)  # noqa: PERF401 - it ends by an error
            except Over:
                return seen


class Over(Exception):  # noqa: N818
    pass


def listed(version: str) -> Listed:
    return Listed([], version)


def change(version: str) -> WatchChange:
    return WatchChange("modified", pods.pod(encoded(pod(metadata={"resourceVersion": version}))), version)


def bookmark(version: str) -> WatchChange:
    return WatchChange("bookmark", None, version)


async def test_a_list_comes_first_and_the_watch_begins_at_its_version():
    cluster = Scripted(listed("10"), [change("11"), change("12")])
    assert await cluster.play() == [listed("10"), change("11"), change("12")]
    assert cluster.asked[:2] == ["list", "watch 10"]


@pytest.mark.parametrize(
    ("events", "resumed"),
    [
        pytest.param([], "10", id="before-the-first"),
        pytest.param([change("11")], "11", id="after-one"),
        pytest.param([change("11"), change("12")], "12", id="after-two"),
        pytest.param([change("11"), bookmark("30")], "30", id="after-a-bookmark"),
    ],
)
@pytest.mark.parametrize("how", [[AWAY], []], ids=["broken", "ended"])
async def test_a_watch_goes_on_after_the_last_event_that_was_whole(events, resumed, how):
    cluster = Scripted(listed("10"), [*events, *how], [change("99")])
    seen = await cluster.play()
    assert cluster.asked[:3] == ["list", "watch 10", f"watch {resumed}"]
    assert [event for event in seen if not isinstance(event, WatchFailure)] == [listed("10"), *events, change("99")]


async def test_an_expired_version_is_listed_again_and_is_not_degraded():
    cluster = Scripted(listed("10"), [change("11"), GONE], listed("50"), [change("51")])
    assert await cluster.play() == [listed("10"), change("11"), listed("50"), change("51")]
    assert cluster.asked[:4] == ["list", "watch 10", "list", "watch 50"]


async def test_a_server_that_refuses_the_version_of_each_list_is_a_failure():
    """A watch never works there, although each list is read."""
    cluster = Scripted(
        *[listed("10"), [GONE]] * EXPIRED_IN_A_ROW, listed("10"), [bookmark("11"), GONE], listed("20"), []
    )
    seen = await cluster.play()
    assert seen == [
        *[listed("10")] * EXPIRED_IN_A_ROW,
        WatchFailure(GONE, is_listed=True),
        listed("10"),
        bookmark("11"),
        listed("20"),
    ]


async def test_a_list_that_fails_is_tried_again():
    cluster = Scripted(AWAY, GONE, listed("10"), [change("11")])
    assert await cluster.play() == [WatchFailure(AWAY), listed("10"), change("11")]


@pytest.mark.parametrize("error", [DENIED, ResourceMissingError("missing")])
async def test_without_watch_support_lists_are_used(error):
    cluster = Scripted(listed("10"), [error], listed("20"), [error], listed("30"))
    seen = await cluster.play()
    failure = WatchFailure(error, is_listed=True)
    assert seen == [listed("10"), failure, listed("20"), failure, listed("30")]


async def test_a_version_that_fails_repeatedly_is_abandoned():
    cluster = Scripted(listed("10"), *[[AWAY]] * RESUME_ATTEMPTS, listed("20"), [change("21")])
    seen = await cluster.play()
    assert cluster.asked[: RESUME_ATTEMPTS + 3] == ["list", *["watch 10"] * RESUME_ATTEMPTS, "list", "watch 20"]
    assert seen == [listed("10"), *[WatchFailure(AWAY, is_listed=True)] * RESUME_ATTEMPTS, listed("20"), change("21")]


async def test_a_later_list_that_fails_is_no_failure_of_the_watch():
    cluster = Scripted(listed("10"), *[[]] * (WATCHES - 1), [AWAY], AWAY)
    failures = [each for each in await cluster.play() if isinstance(each, WatchFailure)]
    assert cluster.asked[-2:] == ["list", "list"]
    assert failures == [WatchFailure(AWAY, is_listed=True), WatchFailure(AWAY)]


async def test_everything_is_listed_again_periodically():
    cluster = Scripted(listed("10"), *[[]] * WATCHES, listed("20"), [])
    await cluster.play()
    assert cluster.asked[: WATCHES + 3] == ["list", *["watch 10"] * WATCHES, "list", "watch 20"]


async def test_pauses_grow_while_it_fails_and_are_short_again_after_an_event():
    cluster = Scripted(listed("10"), [AWAY], [AWAY], [AWAY], [bookmark("11")], [])
    await cluster.play()
    least = [pause_after(failures, lambda: 0.0) for failures in (1, 2, 3, 0, 0)]
    assert all(low <= pause <= 2 * low for low, pause in zip(least, cluster.pauses, strict=True))


async def test_a_server_that_closes_at_once_is_retried_with_pauses():
    cluster = Scripted(listed("10"), *[[]] * 5)
    await cluster.play()
    assert len(cluster.pauses) == 5
    assert min(cluster.pauses) >= FIRST_PAUSE / 2


async def test_an_error_in_the_configuration_does_not_degrade_the_cluster():
    events = follow(Scripted(ConfigurationError("namespace")), "runners")
    with pytest.raises(ConfigurationError):
        await anext(events)


@given(st.integers(0, 10**6), st.floats(0, 1, exclude_max=True))
def test_a_pause_has_a_minimum_and_a_maximum(failures, chance):
    assert FIRST_PAUSE / 2 <= pause_after(failures, lambda: chance) <= LONGEST_PAUSE


def test_pauses_double_to_the_longest():
    at_most = [pause_after(failures, lambda: 1.0) for failures in range(9)]
    assert at_most == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0]
