"""Sizes of what others send are bounded where it comes in: each at its bound, and one past it."""

from __future__ import annotations

import json

import msgspec
import pytest

from ghapp.cluster.wire import pods
from ghapp.cluster.wire.ephemeralrunners import ephemeral_runner
from ghapp.decoding import (
    LARGEST,
    LONGEST_NAME,
    LONGEST_TEXT,
    MOST_LABELS,
    MOST_ODD_ITEMS,
    LeftOutRows,
    RowDecoder,
)
from ghapp.github import wire
from ghapp.github.deliveries import LARGEST_STEPS_BYTES, MOST_ODD, MOST_PERMISSIONS, decode, encode, parse
from ghapp.github.jobs import Jobs
from ghapp.installations.pool_matching import LONGEST_POOL
from ghapp.notifications.conditions import LONGEST_LABELS, unserved_conditions, unserved_subject
from ghapp.notifications.conditions import MOST_LABELS as MOST_SETS
from ghapp.workflow_jobs.explanation import explain
from ghapp.workflow_jobs.job_queue import MOST_COMPARISONS, MOST_HINTS
from tests.cluster.shapes import encoded
from tests.cluster.shapes import ephemeral_runner as shaped_runner
from tests.cluster.shapes import pod as shaped_pod
from tests.rules.workflow_jobs.builders import job, queue, runner
from tests.test_odd_rows import HERE, Answers


def delivered(**changes):
    fields = {"id": 1, "status": "queued", "labels": ["gpu"], **changes}
    body = {"action": "queued", "installation": {"id": 7}, "workflow_job": fields}
    return parse("workflow_job", json.dumps(body).encode(), "application/json")


def labels(count):
    return [f"label-{number}" for number in range(count)]


@pytest.mark.parametrize(
    ("count", "kept"), [(MOST_LABELS, MOST_LABELS), (MOST_LABELS + 1, MOST_LABELS), (50_000, MOST_LABELS)]
)
def test_a_job_has_so_many_labels_and_no_more(count, kept):
    delivery = delivered(labels=labels(count))
    assert [*delivery.workflow_job.labels] == labels(kept)
    assert [each.why for each in delivery.odd] == ([] if count == kept else [f"more than {MOST_LABELS} items"])
    assert decode(encode(delivery)) == delivery


def test_labels_that_are_odd_and_too_many_cost_no_more_than_their_bound():
    delivery = delivered(labels=[None] * 50_000)
    assert delivery.workflow_job.labels == ()
    assert len(delivery.odd) == MOST_ODD


@pytest.mark.parametrize(("length", "kept"), [(LONGEST_NAME, 1), (LONGEST_NAME + 1, 0)])
def test_a_label_or_a_name_has_so_many_characters(length, kept):
    assert len(delivered(labels=["x" * length]).workflow_job.labels) == kept
    row = {"id": 5, "name": "x" * length, "status": "online"}
    page = wire.runner_page(json.dumps({"total_count": 1, "runners": [row]}).encode(), LeftOutRows())
    assert (len(page.runners), page.unreadable) == ((1, frozenset()) if kept else (0, {5}))


@pytest.mark.parametrize("field", ["name", "workflow_name", "runner_name", "html_url", "head_branch", "conclusion"])
@pytest.mark.parametrize(("length", "is_kept"), [(LONGEST_TEXT, True), (LONGEST_TEXT + 1, False)])
def test_a_longer_text_of_a_job_is_left_out(field, length, is_kept):
    delivery = delivered(**{field: "x" * length})
    assert (getattr(delivery.workflow_job, field) is not None) is is_kept
    assert bool(delivery.odd) is not is_kept


@pytest.mark.parametrize(("job_id", "is_kept"), [(LARGEST, True), (LARGEST + 1, False), (10**25, False)])
def test_a_job_with_an_id_that_no_record_holds_is_left_out_and_the_delivery_is_not_refused(job_id, is_kept):
    delivery = delivered(id=job_id)
    assert (delivery.workflow_job is not None) is is_kept
    assert delivery.installation.id == 7
    assert bool(delivery.odd) is not is_kept


@pytest.mark.parametrize("beyond", [0, 1])
def test_an_installation_has_so_many_permissions(beyond):
    permissions = {f"p{each}": "read" for each in range(MOST_PERMISSIONS + beyond)}
    body = {"installation": {"id": 7, "permissions": permissions}}
    delivery = parse("installation", json.dumps(body).encode(), "application/json")
    assert len(delivery.installation.permissions) == MOST_PERMISSIONS
    assert len(delivery.odd) == beyond


@pytest.mark.parametrize("beyond", [0, 1])
def test_steps_of_more_bytes_are_not_read(beyond):
    step = '{"status": "completed", "conclusion": "failure"}'
    steps = f"[{step}{' ' * (LARGEST_STEPS_BYTES + beyond - len(step) - 2)}]"
    job = f'{{"id": 1, "status": "completed", "conclusion": "failure", "steps": {steps}}}'
    delivery = parse(
        "workflow_job", f'{{"installation": {{"id": 7}}, "workflow_job": {job}}}'.encode(), "application/json"
    )
    assert (delivery.workflow_job.step_facts is None) is bool(beyond)
    assert [each.field for each in delivery.odd] == ["workflow_job.steps"] * beyond


def test_a_runner_with_more_labels_is_kept_with_those_that_it_had():
    left_out = LeftOutRows()
    row = {"id": 5, "name": "a", "status": "online", "labels": [{"name": each} for each in labels(MOST_LABELS + 1)]}
    (found,) = wire.runner_page(json.dumps({"total_count": 1, "runners": [row]}).encode(), left_out).runners
    assert (len(found.labels), found.labels_complete) == (MOST_LABELS, False)
    assert left_out.take()["runner"][1].why == f"more than {MOST_LABELS} items"


async def test_a_job_of_a_run_with_more_labels_is_read():
    row = {"id": 5, "status": "queued", "labels": labels(MOST_LABELS + 1)}
    client = Answers({"total_count": 1, "jobs": [row]})
    (found,) = await Jobs(client, HERE).of_run(1)
    assert len(found.job.labels) == MOST_LABELS
    assert client.left_out.take()


class _Row(msgspec.Struct):
    id: int


class _Rows(msgspec.Struct):
    rows: list[_Row]


@pytest.mark.parametrize("beyond", [0, 1])
def test_a_list_of_more_odd_rows_is_no_list(beyond):
    decoder = RowDecoder[_Rows]("runner", _Rows)
    body = json.dumps({"rows": [{"id": 1}, *[{}] * (MOST_ODD_ITEMS + beyond)]}).encode()
    if beyond:
        with pytest.raises(msgspec.ValidationError, match="items are odd"):
            decoder.decode(body)
    else:
        found = decoder.decode(body)
        assert (len(found.value.rows), len(found.left_out)) == (1, MOST_ODD_ITEMS)


@pytest.mark.parametrize("length", [LONGEST_TEXT, LONGEST_TEXT + 1])
def test_messages_of_the_cluster_are_cut(length):
    status = {"phase": "Failed", "reason": "x" * length, "message": "y" * length}
    found = pods.pod(encoded(shaped_pod(status=status)))
    assert (len(found.reason), len(found.message)) == (LONGEST_TEXT, LONGEST_TEXT)
    assert len(ephemeral_runner(encoded(shaped_runner(status=status))).message) == LONGEST_TEXT


def test_many_unknown_labels_are_compared_with_a_bounded_number_of_known_ones():
    runners = [runner(labels=("self-hosted", f"known-label-{number:03}")) for number in range(500)]
    jobs = [
        job(at, labels=("self-hosted", *(f"knwon-label-{at:03}-{each}" for each in range(100)))) for at in range(1, 30)
    ]
    waiting = queue(jobs, runners)
    hints = [explain(waiting, each).text.count("the nearest label") for each in jobs]
    assert max(hints) <= MOST_HINTS
    assert sum(hints) <= MOST_COMPARISONS // 500 + 1
    assert hints[0] == MOST_HINTS, "the first ones have theirs"


@pytest.mark.parametrize("count", [1, MOST_LABELS])
def test_what_jobs_wait_for_is_named_in_bounded_length(count):
    several = [
        job(at, labels=tuple(f"{at}-{each}-{'x' * LONGEST_NAME}" for each in range(count))) for at in range(1, 9)
    ]
    waiting = queue(several, [runner()])
    found = unserved_conditions([(unserved_subject(waiting, *each), each[0]) for each in waiting.unserved()])
    assert len(found) == len(several)
    assert max(len(each.subject) for each in found) <= LONGEST_POOL
    (together,) = unserved_conditions([("", each) for each in several])
    assert len(together.detail) <= MOST_SETS * (LONGEST_LABELS + 2) + 1
