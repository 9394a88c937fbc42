"""The facts that are kept of deliveries about installations and checks."""

from datetime import UTC, datetime

import msgspec
import pytest

from ghapp.github.deliveries import (
    Account,
    CheckRun,
    CheckSuite,
    DeliveredInstallation,
    Delivery,
    InstalledAccount,
    Repository,
    RequestedAction,
    WorkflowJob,
    dated,
    decode,
    encode,
    parse,
)

ENVELOPE = {
    "repository": {"id": 1, "name": ".github", "full_name": "acme/.github", "default_branch": "main", "private": True},
    "organization": {"login": "acme", "id": 2, "description": "We make everything"},
    "sender": {"login": "mona", "id": 3, "type": "User", "site_admin": False},
    "installation": {"id": 7, "node_id": "I_7"},
}
COMMON = {
    "repository": Repository("acme/.github", "main", private=True, id=1),
    "organization": Account("acme", 2),
    "sender": Account("mona", 3),
    "installation": DeliveredInstallation(7),
}
RUN = {
    "id": 60_000_000_001,
    "name": "Runner health",
    "head_sha": "a" * 40,
    "external_id": "ghapp-7",
    "status": "completed",
    "conclusion": "action_required",
    "output": {"title": "t", "summary": "s", "text": None},
    "check_suite": {"id": 5, "head_branch": "main", "head_sha": "a" * 40},
    "app": {"id": 29_310, "slug": "ghapp"},
}
OURS = CheckRun(60_000_000_001, "Runner health", "ghapp-7", "a" * 40)
SUITE = {
    "id": 5,
    "head_branch": "main",
    "head_sha": "b" * 40,
    "status": "queued",
    "before": "a" * 40,
    "after": "b" * 40,
    "created_at": "2026-11-20T12:00:03Z",
}
ACCOUNT = {"login": "acme", "id": 2, "type": "Organization"}
HELD = {"id": 7, "account": ACCOUNT, "created_at": 1_557_933_591, "permissions": {"checks": "write"}}


@pytest.mark.parametrize(
    ("event", "payload", "delivery"),
    [
        (
            "check_run",
            {"action": "requested_action", "check_run": RUN, "requested_action": {"identifier": "resume"}, **ENVELOPE},
            Delivery("requested_action", check_run=OURS, requested_action=RequestedAction("resume"), **COMMON),
        ),
        (
            "check_run",
            {"action": "rerequested", "check_run": {**RUN, "external_id": None}, **ENVELOPE},
            Delivery("rerequested", check_run=CheckRun(OURS.id, OURS.name, head_sha=OURS.head_sha), **COMMON),
        ),
        (
            "check_suite",
            {"action": "requested", "check_suite": SUITE, **ENVELOPE},
            Delivery(
                "requested",
                check_suite=CheckSuite("main", "b" * 40, datetime(2026, 11, 20, 12, 0, 3, tzinfo=UTC)),
                **COMMON,
            ),
        ),
        (
            "check_suite",
            {"action": "requested", "check_suite": {**SUITE, "head_branch": None}},
            Delivery("requested", check_suite=CheckSuite(None, "b" * 40, datetime(2026, 11, 20, 12, 0, 3, tzinfo=UTC))),
        ),
        (
            "installation",
            {"action": "created", "installation": {**HELD, "suspended_at": None}, "repositories": []},
            Delivery(
                "created",
                DeliveredInstallation(7, InstalledAccount("acme", 2, "Organization"), None, {"checks": "write"}),
            ),
        ),
        (
            "installation",
            {"action": "suspend", "installation": {**HELD, "suspended_at": "2026-11-20T12:00:03Z"}},
            Delivery(
                "suspend",
                DeliveredInstallation(
                    7, InstalledAccount("acme", 2, "Organization"), "2026-11-20T12:00:03Z", {"checks": "write"}
                ),
            ),
        ),
    ],
)
def test_what_is_used_of_a_payload_is_kept_and_nothing_else(event, payload, delivery):
    read = parse(event, msgspec.json.encode(payload), "application/json")
    assert read == delivery
    assert decode(encode(read)) == delivery


@pytest.mark.parametrize(
    ("guid", "at"),
    [
        ("4d8ed510-a74e-11f1-9e4b-bb84feffa688", datetime(2026, 9, 3, 4, 16, 57, 569_000, UTC)),
        ("72D3162E-CC78-11E3-81AB-4C9367DC0958", datetime(2014, 4, 25, 12, 52, 24, 582_507, UTC)),
        ("4d8ed510-a74e-41f1-9e4b-bb84feffa688", None),
        ("first", None),
        ("", None),
    ],
    ids=["of a job created in that second", "of GitHub's documentation", "of random digits", "no UUID", "empty"],
)
def test_a_delivery_has_the_date_of_its_guid(guid, at):
    job = dated(WorkflowJob(1, "queued", sent_at=7.0), guid)
    assert (job.id, job.sent_at) == (1, None if at is None else pytest.approx(at.timestamp(), abs=1e-5))
