"""Reads what Terraform changed from its output."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghapp.health.gate.terraform_log import MOST_ERRORS, TerraformRun, read_terraform_log

NOTHING = "Apply complete! Resources: 0 added, 0 changed, 0 destroyed."
ERROR = "╷\n│ Error: creating EC2 Instance: InsufficientInstanceCapacity\n│ \n│   on main.tf line 3\n╵"
FAILED = "creating EC2 Instance: InsufficientInstanceCapacity"


@pytest.mark.parametrize(
    ("log", "found"),
    [
        (NOTHING, TerraformRun(0, 0, 0)),
        ("Apply complete! Resources: 3 added, 1 changed, 2 destroyed.", TerraformRun(3, 1, 2)),
        ("Apply complete! Resources: 1 imported, 0 added, 0 changed, 0 destroyed.", TerraformRun(0, 0, 0)),
        ("Destroy complete! Resources: 4 destroyed.", TerraformRun(0, 0, 4)),
        ("No changes. Your infrastructure matches the configuration.", TerraformRun(0, 0, 0)),
        ("\x1b[0m\x1b[1m\x1b[32mNo changes.\x1b[0m\x1b[1m Your infrastructure\x1b[0m", TerraformRun(0, 0, 0)),
        (f"\x1b[0m\x1b[1m\x1b[32m\n{NOTHING[:16]}\x1b[0m{NOTHING[16:]}\x1b[0m\r\n", TerraformRun(0, 0, 0)),
        (f"2026-11-20T12:00:00.0000000Z {NOTHING}", TerraformRun(0, 0, 0)),
        (ERROR, TerraformRun(errors=(FAILED,))),
        (f"2026-11-20T12:00:00.0000000Z │ Error: {FAILED}", TerraformRun(errors=(FAILED,))),
        (f"{ERROR}\n{NOTHING}", TerraformRun(0, 0, 0)),
        (f"{NOTHING}\n{ERROR}", TerraformRun(0, 0, 0, (FAILED,))),
        (
            "\x1b[31m│\x1b[0m \x1b[0m\x1b[1m\x1b[31mError: \x1b[0m\x1b[0m\x1b[1mno quota\x1b[0m",
            TerraformRun(errors=("no quota",)),
        ),
        ("Plan: 3 to add, 0 to change, 0 to destroy.", TerraformRun()),
        ("Plan: 0 to add, 0 to change, 4 to destroy.", TerraformRun()),
        (f"{NOTHING[:-1]}, 2 forgotten.", TerraformRun(0, 0, 0)),
        (f"{NOTHING} Actions: 1 invoked.", TerraformRun(0, 0, 0)),
        (f"{ERROR}\nnull_resource.a (local-exec): {NOTHING}", TerraformRun(errors=(FAILED,))),
        ("null_resource.a (remote-exec): No changes.", TerraformRun()),
        ("", TerraformRun()),
        ("there were no changes. Error: none", TerraformRun()),
    ],
    ids=[
        "nothing done",
        "something done",
        "imported",
        "destroyed",
        "no changes",
        "no changes, in colour",
        "nothing done, in colour",
        "with CI timestamps",
        "an error",
        "an error, with CI timestamps",
        "an error, then a success",
        "a success, then an error",
        "an error in colour",
        "a plan alone",
        "a plan to destroy alone",
        "of OpenTofu, with forgotten resources",
        "with actions",
        "a run inside a provisioner",
        "a run inside a remote provisioner",
        "an empty log",
        "unrelated text",
    ],
)
def test_the_last_run_in_a_log_counts(log, found):
    assert read_terraform_log(log) == found


@pytest.mark.parametrize(
    ("found", "complete", "futile"),
    [
        (TerraformRun(0, 0, 0), True, True),
        (TerraformRun(1, 0, 0), True, False),
        (TerraformRun(0, 1, 0), True, False),
        (TerraformRun(0, 0, 1), True, False),
        (TerraformRun(0, 0, 0, ("x",)), False, False),
        (TerraformRun(), False, False),
    ],
)
def test_repeating_a_run_that_changed_nothing_is_futile(found, complete, futile):
    assert (found.is_complete, found.is_futile) == (complete, futile)


@given(st.text())
def test_any_text_can_be_read_as_a_log(log):
    found = read_terraform_log(log)
    assert len(found.errors) <= MOST_ERRORS
    assert all(error.isprintable() and len(error) <= 200 for error in found.errors)


def test_many_long_errors_are_truncated():
    found = read_terraform_log("\n".join(["Error: " + "x" * 1000] * 50))
    assert [len(error) for error in found.errors] == [200] * MOST_ERRORS
