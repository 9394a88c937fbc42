"""Whatever is wrong with the JSON of others is one kind of error."""

import json

import msgspec
import pytest

from ghapp import errors
from ghapp.cluster.api_errors import read_status
from ghapp.cluster.wire.envelope import read as read_cluster
from ghapp.decoding import LeftOutRows, RowDecoder, decode
from ghapp.github import wire
from ghapp.github.transport import _message_of
from ghapp.loki.wire import read as read_loki
from ghapp.web.request_body import HTTPException, parse_json

DEEP = b'{"more": ' + b"[" * 100_000  # a field that no type names
PAGE = b'{"total_count": 1, "runners": [], ' + DEEP[1:]


class Named(msgspec.Struct):
    name: str


NAMED = msgspec.json.Decoder(Named)


@pytest.mark.parametrize("body", [DEEP, b"[" * 100_000, b'{"name": "\xff"}', b"", b"{}", b"nul"])
def test_every_broken_body_is_a_decode_error(body):
    with pytest.raises(msgspec.DecodeError):
        decode(NAMED, body)


def test_a_right_body_is_decoded():
    assert decode(NAMED, b'{"name": "a", "more": [[1]]}') == Named("a")


@pytest.mark.parametrize("body", [PAGE, b'{"name": "\xff"}'])
def test_a_broken_answer_of_github_is_no_answer(body):
    with pytest.raises(errors.GitHubUnavailableError):
        wire.runner_page(body, LeftOutRows())
    with pytest.raises(errors.GitHubUnavailableError):
        wire.read(NAMED, body)


@pytest.mark.parametrize("body", [DEEP, b'{"message": "\xff"}'])
def test_the_message_of_a_broken_error_is_empty(body):
    assert _message_of(body) == ""


def test_a_nested_body_of_others_is_refused_like_any_broken_one():
    with pytest.raises(errors.ClusterUnavailableError):
        read_cluster(NAMED, DEEP)
    assert read_status(DEEP).kind != "Status"
    with pytest.raises(ValueError, match="nested too deeply"):
        read_loki(DEEP, LeftOutRows())
    with pytest.raises(HTTPException) as refused:
        parse_json(Named, DEEP, "a name")
    assert refused.value.status_code == 400


@pytest.mark.parametrize("body", [rb'{"name": "a\u0000b"}', rb'{"odd": {"\u0000": null}, "name": "a\u0000b"}'])
def test_the_character_by_which_records_separate_texts_is_in_no_row(body):
    assert RowDecoder("runner", Named).decode(body).value == Named("a\ufffdb")


def test_nor_is_it_in_a_row_that_has_an_odd_field():
    row = {"id": 1, "name": "a\x00b", "status": "online", "os": None}
    page = wire.runner_page(json.dumps({"total_count": 1, "runners": [row]}).encode(), LeftOutRows())
    assert [each.name for each in page.runners] == ["a\ufffdb"]
