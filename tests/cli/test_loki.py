"""The log store: queried by Loki's API; its answers are not trusted."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghapp.errors import LogStoreUnavailableError
from ghapp.loki import client
from ghapp.loki.client import LONGEST_LINE, MOST_BYTES, LogStore, quoted
from tests.support.loki import Loki, answer

ENDED = 1_795_176_003.5
START, MIDDLE, END = 1_795_175_943_500_000_000, 1_795_176_003_500_000_000, 1_795_176_063_500_000_001
SECOND = 1_000_000_000
RUNNER = '{namespace="runners", pod="linux-x7k2p"}'
HOST = '{job="integrations/kubernetes/journal", instance="node-1"}'


def line(seconds, text, *more):
    """A line with a time the given number of seconds after the end."""
    return [str(MIDDLE + int(seconds * SECOND)), text, *more]


@pytest.fixture
def store():
    with Loki() as loki_:
        loki_.holds()
        yield loki_


@pytest.fixture
async def logs(store):
    async with LogStore.open(f"http://{store.address}") as opened:
        yield opened


async def test_the_lines_of_a_runner_are_queried_by_its_pod_from_a_minute_before_to_a_minute_after(store, logs):
    await logs.runner_lines("runners", "linux-x7k2p", ENDED)
    asked = {"query": RUNNER, "start": str(START), "end": str(END), "limit": "200", "direction": "backward"}
    assert store.asked == [("/loki/api/v1/query_range", asked, "")]


async def test_a_journal_is_queried_by_its_node_before_and_after_the_end(store, logs):
    await logs.host_lines("node-1", ENDED)
    before = {"query": HOST, "start": str(START), "end": str(MIDDLE), "limit": "100", "direction": "backward"}
    after = {"query": HOST, "start": str(MIDDLE), "end": str(END), "limit": "100", "direction": "forward"}
    older = [{**each, "query": '{job="systemd-journal", node="node-1"}'} for each in (before, after)]
    assert [params for _, params, _ in store.asked] == [before, after, *older], (
        "without lines, the labels of older versions are queried"
    )


async def test_a_journal_with_lines_is_the_only_one_that_is_queried(store, logs):
    store.holds(({}, [line(-1, "Killing container")]))
    await logs.host_lines("node-1", ENDED)
    assert [params["query"] for _, params, _ in store.asked] == [HOST, HOST]


async def test_lines_of_several_streams_are_shown_in_the_order_of_their_times(store, logs):
    one = [line(-3, "third"), line(-5, "first"), line(2, "last", {"traceID": "x"})]
    store.holds(({"container": "runner"}, one), ({"container": "dind"}, [line(-4, "second")]))
    assert await logs.runner_lines("runners", "x", ENDED) == ("first", "second", "third", "last")


async def test_lines_of_every_unit_of_a_journal_and_lines_without_a_unit_are_shown(store, logs):
    store.holds(
        ({"unit": "kubelet.service"}, [line(-1, "Killing container")]),
        ({"unit": "containerd.service"}, [line(0, "shim disconnected")]),
        ({}, [line(-2, "Out of memory: Killed process 4242 (qemu)")]),
        ({"unit": ""}, [line(60, "the last of the minute")]),
    )
    assert await logs.host_lines("node-1", ENDED) == (
        "2026-11-20T12:00:01.500Z Out of memory: Killed process 4242 (qemu)",
        "2026-11-20T12:00:02.500Z kubelet.service: Killing container",
        "2026-11-20T12:00:03.500Z containerd.service: shim disconnected",
        "2026-11-20T12:01:03.500Z the last of the minute",
    )


@pytest.mark.parametrize(
    ("at", "is_shown"),
    [
        (START - 1, False),
        (START, True),
        (END - 1, True),
        (END, False),
    ],
)
async def test_lines_of_another_time_are_not_shown_whatever_their_source(store, logs, at, is_shown):
    store.holds(({}, [[str(at), "text"]]))
    assert await logs.runner_lines("runners", "x", ENDED) == (("text",) if is_shown else ())


async def test_only_the_last_lines_of_a_runner_are_shown(store, logs):
    store.holds(({}, [line(-50 + number / 10, str(number)) for number in range(500)]))
    is_shown = await logs.runner_lines("runners", "x", ENDED)
    assert (len(is_shown), is_shown[0], is_shown[-1]) == (200, "300", "499")


async def test_only_the_lines_of_a_journal_nearest_to_the_end_are_shown(store, logs):
    store.holds(({}, [line(number / 10, f"<{number}>") for number in range(-500, 500)]))
    is_shown = await logs.host_lines("node-1", ENDED)
    assert len(is_shown) == 200
    assert ("<-100>" in is_shown[0], "<99>" in is_shown[-1]) == (True, True)


async def test_long_lines_are_limited_to_those_nearest_to_the_end(store, logs):
    store.holds(({}, [line(number, f"{number}".ljust(975, ".")) for number in range(-30, 30)]))
    is_shown = await logs.host_lines("node-1", ENDED)
    assert {len(each) for each in is_shown} == {1000}, "each line starts with a time and a space"
    assert [int(each.split(" ")[1].strip(".")) for each in is_shown] == list(range(-16, 16))


@pytest.mark.parametrize(("length", "shown"), [(1000, "x" * 1000), (1001, "x" * 999 + "…")])
async def test_a_line_is_truncated_at_the_size_limit(store, logs, length, shown):
    store.holds(({}, [line(0, "x" * length + "  \n")]))
    assert await logs.runner_lines("runners", "x", ENDED) == (shown,)


async def test_text_that_looks_like_a_secret_is_redacted(store, logs):
    token = "ghs_16C7e42F292c6912E7710c838347Ae178B4a"
    store.holds(({}, [line(0, f"{'x' * 980} {token} and on")]))
    (is_shown,) = await logs.runner_lines("runners", "x", ENDED)
    assert is_shown == f"{'x' * 980} [redacted] and on"


async def test_a_megabyte_that_looks_like_a_token_is_redacted_quickly(store, logs):
    store.holds(({}, [line(0, "eyJ" * 400_000)]))
    assert len((await logs.runner_lines("runners", "x", ENDED))[0]) == LONGEST_LINE


@pytest.mark.parametrize(
    "ask",
    [
        lambda logs: logs.runner_lines("", "pod", ENDED),
        lambda logs: logs.runner_lines("runners", "", ENDED),
        lambda logs: logs.host_lines("", ENDED),
    ],
    ids=["no namespace", "no pod", "no node"],
)
async def test_an_empty_label_is_not_queried_because_it_would_match_all_streams(store, logs, ask):
    assert await ask(logs) == ()
    assert store.asked == []


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("linux-x7k2p", '"linux-x7k2p"'),
        ('", pod=~".+', r'"\", pod=~\".+"'),
        ("back\\slash", r'"back\\slash"'),
        ("a\nb\tc\x00", r'"a\nb\tc\u0000"'),
        ("ä😀`", '"ä😀`"'),
    ],
)
def test_a_label_value_is_quoted_as_one_string(value, written):
    assert quoted(value) == written


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_no_label_value_ends_its_quoted_string_early(value):
    written = quoted(value)
    assert written[0] == written[-1] == '"'
    inside = written[1:-1].replace("\\\\", "")
    assert '"' not in inside.replace('\\"', "")
    assert "\n" not in inside
    assert json.loads(written) == value


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "sent an answer that is not Loki's list of streams"),
        (b"<html>", "sent an answer that is not Loki's list of streams"),
        (b"{}", "sent an answer that is not Loki's list of streams"),
        (answer("matrix", []), "sent an answer that is not Loki's list of streams"),
        (answer("streams", [], "error"), "sent an answer that is not Loki's list of streams"),
        (b" " * (MOST_BYTES + 1), "answered more than 4,194,304 bytes"),
    ],
    ids=["nothing", "html", "empty", "matrix", "error", "too long"],
)
async def test_an_invalid_answer_is_an_error_of_one_line(store, logs, body, why):
    store.body = body
    with pytest.raises(LogStoreUnavailableError) as error:
        await logs.runner_lines("runners", "x", ENDED)
    assert str(error.value) == f"the log store at {store.address} {why}; check GHAPP_LOKI_URL"


@pytest.mark.parametrize(
    "odd",
    [
        {"stream": {}, "values": [["soon", "x"]]},
        {"stream": {}, "values": [["1"]]},
        {"stream": {}, "values": [[1, "x"]]},
        {"stream": None, "values": []},
        {"values": None},
        None,
    ],
    ids=["no time", "no line", "a number", "no labels", "no lines", "no stream"],
)
async def test_an_odd_stream_or_line_costs_itself_alone(store, logs, odd):
    store.body = answer("streams", [odd, {"stream": {}, "values": [line(0, "kept")]}])
    assert await logs.runner_lines("runners", "x", ENDED) == ("kept",)


async def test_an_answer_of_the_maximum_size_is_read(store, logs):
    store.body = answer("streams", []).ljust(MOST_BYTES)
    assert await logs.runner_lines("runners", "x", ENDED) == ()


@pytest.mark.parametrize("status", [204, 302, 400, 401, 404, 429, 500])
async def test_any_other_status_is_an_error(store, logs, status):
    store.status, store.headers = status, {"location": "/elsewhere"}
    with pytest.raises(LogStoreUnavailableError, match=f"answered {status};"):
        await logs.runner_lines("runners", "x", ENDED)
    assert len(store.asked) == 1


async def test_a_compressed_answer_is_not_decompressed(store, logs):
    store.headers = {"content-encoding": "gzip"}
    store.body = b"\x1f\x8b" + b"\0" * 100
    with pytest.raises(LogStoreUnavailableError, match="not Loki's list of streams"):
        await logs.runner_lines("runners", "x", ENDED)


async def test_an_answer_that_is_sent_too_slowly_times_out(store, logs, monkeypatch):
    assert client.TIMEOUT_SECONDS == 5.0
    monkeypatch.setattr(client, "TIMEOUT_SECONDS", 0.2)
    store.drip_seconds = 0.02
    with pytest.raises(LogStoreUnavailableError, match=r"did not answer within 0\.2 s"):
        await logs.runner_lines("runners", "x", ENDED)


async def test_an_unavailable_store_is_an_error():
    with Loki() as stopped:
        address = stopped.address
    async with LogStore.open(f"http://{address}") as logs:
        with pytest.raises(LogStoreUnavailableError, match=r"did not answer \(ConnectError\)") as error:
            await logs.host_lines("node-1", ENDED)
    assert error.value.__suppress_context__, "a traceback would show the address with its password"


async def test_a_label_value_that_cannot_be_encoded_is_an_error(logs):
    with pytest.raises(LogStoreUnavailableError):
        await logs.runner_lines("runners", "half a \ud83d", ENDED)


async def test_a_user_and_a_password_are_sent_and_never_shown(store):
    store.status = 401
    async with LogStore.open(f"http://us:p%40ss@{store.address}/logs/") as logs:
        with pytest.raises(LogStoreUnavailableError) as error:
            await logs.runner_lines("runners", "x", ENDED)
    assert [(path, auth) for path, _, auth in store.asked] == [("/logs/loki/api/v1/query_range", "Basic dXM6cEBzcw==")]
    assert str(error.value) == f"the log store at {store.address} answered 401; check GHAPP_LOKI_URL"
