"""Whatever comes, and whoever signed it: a delivery, or one clear error."""

from __future__ import annotations

import json
from contextlib import suppress
from urllib.parse import urlencode

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ghapp.errors import MalformedDeliveryError
from ghapp.github.deliveries import FORM, KNOWN, decode, encode, parse, verify

EVENTS = st.sampled_from(sorted(KNOWN)) | st.text(max_size=20)
KINDS = st.sampled_from(["application/json", FORM, f"{FORM}; charset=utf-8", "", "text/html"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=20,
)
NAMES = st.sampled_from(
    ["action", "installation", "workflow_job", "repository", "id", "status", "labels", "account", "sender", "login"]
)
NEARLY = st.recursive(
    st.none() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=6),
    max_leaves=30,
)


@given(EVENTS, st.binary(max_size=300), KINDS)
@example("workflow_job", b"payload=" + b"%7B" * 50, FORM)
@example("workflow_job", b"[" * 100_000, "application/json")
@example("ping", b"\xff\xfe", "application/json")
def test_any_bytes_are_a_delivery_or_malformed(event, body, kind):
    with suppress(MalformedDeliveryError):
        parse(event, body, kind)


@given(EVENTS, JSON | NEARLY, st.booleans())
def test_any_json_is_a_delivery_or_malformed_and_what_is_kept_of_it_is_read_again(event, payload, as_form):
    text = json.dumps(payload)
    body, kind = (urlencode({"payload": text}).encode(), FORM) if as_form else (text.encode(), "application/json")
    with suppress(MalformedDeliveryError):
        delivery = parse(event, body, kind)
        assert decode(encode(delivery)) == delivery


@given(st.binary(max_size=100), st.text(max_size=80) | st.none(), st.lists(st.text(max_size=10), max_size=3))
def test_no_signature_but_the_right_one_is_good(body, signature, secrets):
    assert verify(body, signature, secrets) is False


@pytest.mark.parametrize("depth", [1, 100, 10_000])
def test_a_payload_nested_without_end_is_malformed_or_read_and_ends_nobody(depth):
    body = b'{"a":' * depth + b"1" + b"}" * depth
    with suppress(MalformedDeliveryError):
        parse("workflow_job", b'{"workflow_job":' + body + b"}", "application/json")
