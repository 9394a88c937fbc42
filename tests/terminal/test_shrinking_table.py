"""Tables on terminals of any width."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from ghapp.terminal.tables import ago, runners_table

NOW = 1_795_338_611.0  # 2026-11-22T09:10:11Z
NAME = "linux-4vcpu-x7k2p"


def document(**given):
    return {
        "org": "acme",
        "pool": "linux-4vcpu",
        "name": NAME,
        "runner_id": 1234567,
        "state": "invalidated",
        "reason": "RegistrationInvalidated",
        "age_seconds": 4.0,
        "since": None,
        "fuse": "closed",
        "fuse_of_all_pools": False,
        "paused": False,
        "healed": False,
        "remediation": remediation("none", is_open=given.get("state", "invalidated") == "invalidated"),
    } | given


def remediation(status, blocked_by=None, *, is_open=True):
    return {"status": status, "since": None, "blocked_by": blocked_by, "open": is_open}


HEALED = {"healed": True, "remediation": remediation("healed", is_open=False)}


def drawn(width, *documents, total=None, limit=None):
    out = io.StringIO()
    table = runners_table(documents, total or len(documents), NOW, limit)
    Console(file=out, width=width, force_terminal=True, color_system=None).print(table, crop=False)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_where_there_is_room_everything_is_shown():
    count, head, line = drawn(200, document())
    assert head.split() == ["org", "pool", "runner", "id", "state", "reason", "seen"]
    assert line.split() == [
        "acme",
        "linux-4vcpu",
        NAME,
        "1234567",
        *["invalidated", "RegistrationInvalidated", "4", "s", "ago"],
    ]
    assert count.strip() == "1 runner; 1 invalidated"


def test_the_line_above_the_table_counts_what_is_shown_of_all_by_state():
    rows = [document(), document(), document(state="healthy"), document(**HEALED)]
    count, *_ = drawn(200, *rows, total=312)
    assert count.strip() == "4 of 312 runners; 1 healed, 2 invalidated"
    assert drawn(200, document(state="healthy"))[0].strip() == "1 runner"


def test_a_limit_hides_rows_but_changes_no_count_by_state():
    rows = [document(state="healthy"), document(), document()]
    count, _, line, more = drawn(200, *rows, total=312, limit=1)
    assert count.strip() == "1 of 312 runners; 2 invalidated"
    assert "healthy" in line
    assert more.strip() == "2 more; --limit 3 shows all"


@pytest.mark.parametrize(
    ("width", "left"),
    [
        (94, ["org", "pool", "runner", "id", "state", "reason", "seen"]),
        (93, ["pool", "runner", "id", "state", "reason", "seen"]),
        (80, ["runner", "id", "state", "reason", "seen"]),
        (70, ["runner", "state", "reason", "seen"]),
    ],
)
def test_required_text_goes_first_and_no_name_is_ever_broken(width, left):
    _, head, line = drawn(width, document())
    assert head.split() == left
    assert f" {NAME} " in line
    assert " RegistrationInvalidated " in line


def test_what_is_too_wide_for_the_terminal_becomes_a_list_with_whole_names():
    assert drawn(50, document(reason="R" * 40))[1:] == [
        "org: acme",
        "  pool: linux-4vcpu",
        f"  runner: {NAME}",
        "  id: 1234567",
        "  state: invalidated",
        f"  reason: {'R' * 40}",
        "  seen: 4 s ago",
    ]


def test_in_a_pipe_each_row_stays_one_line():
    out = io.StringIO()
    Console(file=out, width=50).print(runners_table([document(reason="R" * 40)], 1, NOW), crop=False)
    assert len(out.getvalue().splitlines()) == 3


def test_what_differs_stays():
    _, head, *_ = drawn(94, document(), document(org="globex", name="other"))
    assert head.split()[:2] == ["org", "pool"]


def test_a_missing_pod_is_not_reported_as_seen():
    line = drawn(200, document(since="2026-11-22T08:56:11Z"))[-1]
    assert line.endswith("invalidated for 14 min")


def test_what_healed_is_marked_and_counted():
    count, _, line = drawn(200, document(**HEALED))
    assert line.split()[4] == "healed"
    assert count.strip() == "1 runner; 1 healed"


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (remediation("waiting", "pause"), "waiting (pause)"),
        (remediation("waiting"), "waiting"),
        (remediation("requested"), "requested"),
    ],
)
def test_what_happens_next_to_a_lost_runner_is_shown_in_its_line(given, shown):
    _, head, line = drawn(200, document(remediation=given))
    assert head.split()[-2:] == ["next", "seen"]
    assert f" {shown} " in line


def test_a_request_without_a_successor_for_an_hour_is_no_loss_any_more():
    count, *_ = drawn(200, document(remediation=remediation("requested", is_open=False)))
    assert count.strip() == "1 runner; 1 no-successor"


@pytest.mark.parametrize(
    ("at", "text"),
    [
        ("2026-11-22T09:10:11Z", "0 s ago"),
        ("2026-11-22T09:08:12Z", "1 min 59 s ago"),
        ("2026-11-22T09:08:11Z", "2 min ago"),
        ("2026-11-22T08:56:11Z", "14 min ago"),
        ("2026-11-22T07:10:11Z", "2 h ago"),
        ("2026-11-20T09:10:11Z", "2 d ago"),
        ("2026-11-22T09:11:11Z", "0 s ago"),
        (None, ""),
    ],
)
def test_times_are_relative_and_none_is_in_the_future(at, text):
    assert ago(at, NOW) == text
