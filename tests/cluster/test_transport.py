"""One request, and every way in which there is no answer."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from itertools import pairwise

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lightkube import ConfigError

from ghapp.cluster import transport as transports
from ghapp.cluster.request import PODS, ClusterRequest
from ghapp.cluster.transport import ClusterTransport
from ghapp.errors import ClusterError, ClusterUnavailableError, ConfigurationError
from ghapp.timings import Timings
from tests.cluster.serving import answering

LIST = ClusterRequest("list", PODS, "runners")
WATCH = ClusterRequest("watch", PODS, "runners")


@asynccontextmanager
async def transport_to(url: str, seconds: float = 5.0):
    async with httpx2.AsyncClient(base_url=url, trust_env=False) as client:
        yield ClusterTransport(client, Timings(cluster_call_seconds=seconds))


def mocked(answer) -> ClusterTransport:
    return ClusterTransport(httpx2.AsyncClient(base_url="http://cluster", transport=httpx2.MockTransport(answer)))


async def all_lines(transport: ClusterTransport, within: float = 5.0, into: list[bytes] | None = None) -> list[bytes]:
    """The lines; those that came before it broke are in `into`."""
    lines = [] if into is None else into
    async for line in transport.lines(WATCH, within):
        lines.append(line)
    return lines


@pytest.mark.parametrize("name", ["", "..", "a/b", "MBP"])
async def test_what_cannot_exist_is_absent_and_never_asked_for(name):
    def refuse(request):
        raise AssertionError(f"{request.method} {request.url} left the house")

    assert await mocked(refuse).send(ClusterRequest("delete", PODS, "runners", name)) is None


@pytest.mark.parametrize("namespace", ["..", "a/b", "kube system", "A"])
async def test_a_namespace_that_cannot_exist_is_a_mistake(namespace):
    with pytest.raises(ConfigurationError, match="namespace: "):
        await mocked(lambda _: httpx2.Response(200)).send(ClusterRequest("list", PODS, namespace))


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(httpx2.ConnectError("refused"), id="refused"),
        pytest.param(httpx2.ReadTimeout("slow"), id="slow"),
        pytest.param(httpx2.RemoteProtocolError("half"), id="half-an-answer"),
        pytest.param(httpx2.InvalidURL("no"), id="no-address"),
        pytest.param(ConfigError("Exec aws returned 255: expired\nlog in"), id="a-command-that-failed"),
        pytest.param(FileNotFoundError("aws"), id="a-command-that-is-missing"),
        pytest.param(KeyError("status"), id="a-command-with-unexpected-output"),
        pytest.param(ValueError("no JSON"), id="a-command-that-speaks-no-json"),
    ],
)
async def test_no_answer_is_one_line_and_one_error(failure):
    def fail(request):
        raise failure

    for ask in (mocked(fail).send(LIST), all_lines(mocked(fail))):
        with pytest.raises(ClusterUnavailableError) as refused:
            await ask
        assert str(refused.value).startswith(("list pods runners: no ", "watch pods runners: no "))
        assert "\n" not in str(refused.value)


async def test_no_server_is_no_answer():
    async with answering(b"") as closed:
        pass
    async with transport_to(closed.url) as transport:
        with pytest.raises(ClusterUnavailableError):
            await transport.send(LIST)


async def test_a_truncated_answer_is_no_answer():
    async with answering(b'{"items": []', length=100) as server, transport_to(server.url) as transport:
        with pytest.raises(ClusterUnavailableError, match="no answer"):
            await transport.send(LIST)


async def test_an_endless_answer_is_no_answer():
    async with answering(b"{", length=100, hangs=True) as server, transport_to(server.url, 0.05) as transport:
        with pytest.raises(ClusterUnavailableError, match="no answer in time"):
            await transport.send(LIST)


@pytest.mark.parametrize("code", [301, 302, 401, 403, 404, 410, 429, 500, 503])
async def test_a_watch_that_is_refused_yields_nothing(code):
    async with answering(b"404 page not found", code=code) as server, transport_to(server.url) as transport:
        with pytest.raises(ClusterError):
            await all_lines(transport)


async def test_a_silent_watch_ends_in_time():
    async with answering(b"{}\n", length=100, hangs=True) as server, transport_to(server.url) as transport:
        seen = []
        with pytest.raises(ClusterUnavailableError, match="in time"):
            await all_lines(transport, 0.05, into=seen)
        assert seen == [b"{}"]


@pytest.mark.parametrize("cut", range(1, 10))
async def test_a_line_that_is_cut_short_is_not_yielded(cut):
    async with answering(b'{"a": 1}\n{"b": 2}\n'[: 9 + cut]) as server, transport_to(server.url) as transport:
        seen = []
        if cut == 9:
            assert await all_lines(transport) == [b'{"a": 1}', b'{"b": 2}']
            return
        with pytest.raises(ClusterUnavailableError, match="cut short"):
            await all_lines(transport, into=seen)
        assert seen == [b'{"a": 1}']


async def test_a_broken_connection_between_lines_is_not_an_end():
    async with answering(b'{"a": 1}\n', length=100) as server, transport_to(server.url) as transport:
        seen = []
        with pytest.raises(ClusterUnavailableError, match="no answer"):
            await all_lines(transport, into=seen)
        assert seen == [b'{"a": 1}']


async def test_an_endless_line_is_abandoned(monkeypatch):
    monkeypatch.setattr(transports, "LONGEST_LINE", 10)
    async with answering(b"x" * 11) as server, transport_to(server.url) as transport:
        with pytest.raises(ClusterUnavailableError, match="more than 10 bytes"):
            await all_lines(transport)


@given(
    st.lists(st.text(min_size=1).filter(lambda text: text.strip() and "\n" not in text).map(str.encode)),
    st.lists(st.integers(0, 200)),
)
def test_lines_are_whole_wherever_they_are_split(lines, places):
    async def chunks():
        text = b"".join(line + b"\n" for line in lines)
        places_in = [0, *sorted(place for place in places if place < len(text)), len(text)]
        for begin, end in pairwise(places_in):
            yield text[begin:end]

    async def joined():
        return [line async for line in transports._lines(WATCH, chunks())]

    assert asyncio.run(joined()) == lines


async def test_a_client_that_stops_reading_a_watch_closes_it():
    async with (
        answering(b'{"a": 1}\n{"b": 2}\n', length=100, hangs=True) as server,
        transport_to(server.url) as transport,
    ):
        lines = transport.lines(WATCH, 5.0)
        assert await anext(lines) == b'{"a": 1}'
        await lines.aclose()
        assert transport._client._transport._pool.connections == []


@pytest.mark.parametrize(
    ("headers", "at"),
    [
        ({"Date": "Fri, 20 Nov 2026 12:00:03 GMT"}, 1_795_176_003.0),
        ({"Date": "Fri, 20 Nov 2026 12:00:03 -0000"}, 1_795_176_003.0),
        ({}, None),
        ({"Date": ""}, None),
        ({"Date": "the twentieth"}, None),
        ({"Date": "Fri, 20 Nov 99999 12:00:03 GMT"}, None),
    ],
    ids=["present", "without a zone", "missing", "empty", "in words", "without a year"],
)
async def test_an_answer_contains_its_time(headers, at):
    answer = await mocked(lambda _: httpx2.Response(200, content=b"{}", headers=headers)).request(LIST)
    assert answer == (b"{}", at)
