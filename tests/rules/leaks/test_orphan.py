"""The report of a reaped pod."""

import pytest

from ghapp.leaks.orphan import NEVER_NAMED, orphan
from ghapp.leaks.runner_activity import RunnerActivity
from ghapp.pods.pod import Ended
from ghapp.report.documents import orphan_document
from tests.rules.builders import NOW
from tests.rules.pods.builders import container, pod


def found(**changes):
    return orphan(pod(**changes), "linux-1", "linux", RunnerActivity(busy=False), NOW - 300, NOW)


def facts_of(found, source):
    return [(at, text) for at, by, text in found.evidence if by == source]


def test_the_document_names_the_pod_and_orders_its_evidence_by_time():
    data = orphan_document("acme", found())
    assert {key: value for key, value in data.items() if key != "evidence"} == {
        "org": "acme",
        "namespace": "runners",
        "pod": "linux-1",
        "pod_uid": "pod-1",
        "node": "node-a",
        "runner_name": "linux-1",
        "pool": "linux",
        "at": data["at"],
        "unclaimed_since": data["unclaimed_since"],
    }
    assert [each["source"] for each in data["evidence"]] == ["pod", "pod", "claim", "list"]
    assert data["evidence"][2]["at"] == data["unclaimed_since"] < data["evidence"][3]["at"] == data["at"]


def test_unknown_fields_are_null():
    data = orphan_document(
        "acme", orphan(pod(node="", runner=None), "linux-1", "", RunnerActivity(busy=False), NOW - 300, NOW)
    )
    assert (data["node"], data["pool"]) == (None, None)


def test_the_evidence_includes_an_ended_container():
    ended = container(running_since=None, ended=Ended(137, finished_at=NOW - 60))
    assert (NOW - 60, "its container ended") in facts_of(found(runner=ended), "pod")


def test_the_evidence_says_that_nothing_has_named_the_runner():
    runner = RunnerActivity(busy=False)
    never_named = orphan(pod(), "linux-1", "linux", runner, NOW - 300, NOW, never_named=True)
    assert [text for _, text in facts_of(never_named, "list")] == ["GitHub lists no runner of its name", NEVER_NAMED]


@pytest.mark.parametrize(
    ("runner", "word"),
    [
        (RunnerActivity(busy=False), "GitHub lists no runner of its name"),
        (RunnerActivity(busy=False, registered=True), "GitHub lists its runner offline, and its container has ended"),
        (
            RunnerActivity(busy=False, registered=True, offline_too_long=True),
            "GitHub lists its runner offline, for longer than `replace_offline_after_seconds` of its pool",
        ),
        (RunnerActivity(busy=False, online=True), "GitHub lists its runner online, and its container has ended"),
        (
            RunnerActivity(busy=True, over_at=NOW - 900),
            "GitHub lists its runner busy, and its job has been over for 15 minutes",
        ),
        (
            RunnerActivity(over_at=NOW - 900),
            "GitHub did not answer about its runner, and its job has been over for 15 minutes",
        ),
        (RunnerActivity(busy=True), "GitHub lists its runner busy, and its container has ended"),
    ],
    ids=["absent", "offline", "offline too long", "online", "busy", "no answer", "ended"],
)
def test_the_evidence_states_githubs_answer_and_what_overruled_it(runner, word):
    assert facts_of(orphan(pod(), "linux-1", "linux", runner, NOW - 300, NOW), "list") == [(NOW, word)]
