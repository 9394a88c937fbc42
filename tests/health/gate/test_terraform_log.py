"""What Terraform's output says that provisioning did."""

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
        "with a CI's time",
        "an error",
        "an error, with a CI's time",
        "an error, and then it went well",
        "an error at last",
        "an error in colour",
        "a plan alone",
        "a plan to destroy alone",
        "of OpenTofu, that forgets",
        "with actions",
        "of what a provisioner ran",
        "of what it ran elsewhere",
        "an empty log",
        "other words",
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
def test_it_is_futile_to_repeat_what_found_nothing_to_do(found, complete, futile):
    assert (found.is_complete, found.is_futile) == (complete, futile)


@given(st.text())
def test_no_log_is_too_strange_to_be_read(log):
    found = read_terraform_log(log)
    assert len(found.errors) <= MOST_ERRORS
    assert all(error.isprintable() and len(error) <= 200 for error in found.errors)


def test_many_long_errors_are_cut_down():
    found = read_terraform_log("\n".join(["Error: " + "x" * 1000] * 50))
    assert [len(error) for error in found.errors] == [200] * MOST_ERRORS
