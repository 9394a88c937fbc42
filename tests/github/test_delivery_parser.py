"""Any content, signed by anyone: a delivery, or one clear error."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime
from urllib.parse import urlencode

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ghapp.errors import MalformedDeliveryError
from ghapp.github.deliveries import (
    FORM,
    KNOWN,
    DeliveredInstallation,
    Delivery,
    WorkflowJob,
    decode,
    encode,
    parse,
    verify,
)

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
def test_a_payload_nested_without_end_is_malformed_or_read_and_crashes_nothing(depth):
    body = b'{"a":' * depth + b"1" + b"}" * depth
    with suppress(MalformedDeliveryError):
        parse("workflow_job", b'{"workflow_job":' + body + b"}", "application/json")


STARTED = datetime(2026, 11, 22, tzinfo=UTC)
JOB = WorkflowJob(1, "in_progress", ("linux",), runner_id=7, runner_name="linux-7", started_at=STARTED)
KEPT = {"action": "in_progress", "installation": {"id": 9}, "workflow_job": msgspec.to_builtins(JOB)}


def kept(**job):
    return json.dumps({**KEPT, "workflow_job": {**KEPT["workflow_job"], **job}}).encode()


@pytest.mark.parametrize(
    ("more", "lost"),
    [
        ({"started_by": {"id": 1, "login": "ann"}}, {}),
        ({"conclusion": {"code": "success", "by": 1}}, {}),
        ({"labels": [{"name": "linux"}]}, {"labels": ()}),
        ({"started_at": 1_790_000_000}, {"started_at": None}),
    ],
    ids=["a field more", "one of another form", "labels of another form", "a time of another form"],
)
def test_facts_that_the_next_version_kept_take_effect_but_for_what_we_do_not_know(more, lost):
    assert decode(kept(**more)).workflow_job == msgspec.structs.replace(JOB, **lost)


def test_an_unknown_form_at_one_place_leaves_the_others_alone():
    facts = json.dumps(
        {**KEPT, "sender": "ann", "repository": ["acme/api"], "check_run": {"id": 5, "name": 1}}
    ).encode()
    read = decode(facts)
    assert (read.sender, read.repository, read.workflow_job) == (None, None, JOB)
    assert read.check_run is not None
    assert (read.check_run.id, read.check_run.name) == (5, "")


@pytest.mark.parametrize(("more", "field"), [({"id": "one"}, "id"), ({"status": None}, "status")])
def test_a_job_without_what_it_always_has_is_left_out_when_it_arrives_and_unreadable_when_it_was_stored(more, field):
    delivery = parse("workflow_job", kept(**more), "application/json")
    assert delivery.workflow_job is None
    assert delivery.installation == DeliveredInstallation(9)
    assert [each.field for each in delivery.odd] == [f"workflow_job.{field}"]
    with pytest.raises(msgspec.ValidationError, match=field):
        decode(kept(**more))


def test_facts_of_an_event_without_any_are_read():
    assert decode(encode(Delivery())) == Delivery()
