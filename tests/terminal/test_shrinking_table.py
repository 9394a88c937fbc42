"""Tables on terminals of any width."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from ghapp.terminal.tables import runners_table

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
        "paused": False,
        "healed": False,
    } | given


def drawn(width, *documents):
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=True, color_system=None).print(runners_table(documents), crop=False)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_where_there_is_room_everything_is_shown():
    head, line, count = drawn(200, document())
    assert head.split() == ["org", "pool", "runner", "id", "state", "reason", "seen"]
    assert line.split() == [
        "acme",
        "linux-4vcpu",
        NAME,
        "1234567",
        *["invalidated", "RegistrationInvalidated", "4", "s", "ago"],
    ]
    assert count.strip() == "1 runner"


@pytest.mark.parametrize(
    ("width", "left"),
    [
        (94, ["org", "pool", "runner", "id", "state", "reason", "seen"]),
        (93, ["pool", "runner", "id", "state", "reason", "seen"]),
        (80, ["runner", "id", "state", "reason", "seen"]),
        (70, ["runner", "state", "reason", "seen"]),
        (30, ["runner", "state", "reason", "seen"]),
    ],
)
def test_required_text_goes_first_and_no_name_is_ever_broken(width, left):
    head, line, _ = drawn(width, document())
    assert head.split() == left
    assert f" {NAME} " in line
    assert " RegistrationInvalidated " in line


def test_what_differs_stays():
    head, *_ = drawn(80, document(), document(org="globex", name="other"))
    assert head.split()[:2] == ["org", "pool"]


def test_a_missing_pod_is_not_reported_as_seen():
    _, line, _ = drawn(200, document(since="2026-11-22T09:10:11Z"))
    assert line.endswith("absent since 09:10:11")


def test_what_healed_is_marked_and_counted():
    _, line, count = drawn(200, document(healed=True))
    assert "invalidated, healed" in line
    assert "1 of them healed" in count


@pytest.mark.parametrize(
    ("given", "held"),
    [
        ({"paused": True}, "pause"),
        ({"fuse": "stopped"}, "fuse stopped"),
        ({"paused": True, "fuse": "proving"}, "pause, fuse proving"),
    ],
)
def test_what_holds_a_replacement_back_is_shown_in_its_runner_s_line(given, held):
    head, line, _ = drawn(200, document(**given))
    assert head.split()[-3:] == ["held", "by", "seen"]
    assert f" {held} " in line
