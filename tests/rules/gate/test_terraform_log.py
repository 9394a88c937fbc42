"""Reads what Terraform changed from its output."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ghapp.gate.terraform_log import MOST_ERRORS, TerraformRun, read_terraform_log

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


STATES = "Apply complete! Resources: 4 added, 1 changed, 0 destroyed."
QUOTA = "creating EC2 Instance: no quota"
PRETTY = f"""\
14:19:25.081 INFO   [app] Running command: terraform apply
14:19:25.174 STDERR [db] terraform: ╷
14:19:25.174 STDERR [db] terraform: │ Error: {QUOTA}
14:19:25.081 STDOUT [app] terraform: {NOTHING}
14:19:26.001 ERROR  [db] terraform invocation failed in ./.terragrunt-cache/abc/def
14:19:26.002 ERROR  Unable to determine underlying exit code, so Terragrunt will exit with error code 1"""


@pytest.mark.parametrize(
    ("log", "found"),
    [
        (PRETTY, TerraformRun(0, 0, 0, (f"db: {QUOTA}",))),
        ("\n".join(f"2026-11-20T12:00:00.0000000Z {line}" for line in PRETTY.splitlines()), "the same"),
        (PRETTY.replace("[db] ", "[\x1b[33mdb\x1b[0m] "), "the same"),
        (f"{PRETTY}\n14:20:25.081 STDOUT [db] terraform: {STATES}", TerraformRun(4, 1, 0)),
        (
            f"14:19:25 STDOUT [app] tofu: {STATES}\n14:19:25 STDOUT [db] tofu: {STATES}\n",
            TerraformRun(8, 2, 0),
        ),
        (f"[/infra/app] {NOTHING}\n[/infra/db] │ Error: {QUOTA}\n[/infra/web] {NOTHING}", (f"/infra/db: {QUOTA}",)),
        (
            (
                f"│ Error: {QUOTA}\n{NOTHING}\ntime=2026-11-20T12:00:00Z level=error msg=Module /infra/db has finished with "
                "an error: 1 error occurred:"
            ),
            (QUOTA, "/infra/db: it failed"),
        ),
        (
            (
                f"time=2026-11-20T12:00:00Z level=stderr prefix=db tf-path=terraform msg=│ Error: {QUOTA}\n"
                f"time=2026-11-20T12:00:00Z level=stdout prefix=app tf-path=terraform msg={NOTHING}"
            ),
            (f"db: {QUOTA}",),
        ),
        (
            (
                f'{{"level":"stderr","prefix":"db","msg":"│ Error: {QUOTA}"}}\n'
                f'{{"level":"stdout","prefix":"app","msg":"{NOTHING}"}}'
            ),
            (f"db: {QUOTA}",),
        ),
        (f"{NOTHING}\n❯❯ Run Summary  3 units  1m\n   Succeeded    2\n   Failed       1\n", "1 of the modules failed"),
        (f"{NOTHING}\n❯❯ Run Summary\n   Failed       1\n{NOTHING}\n❯❯ Run Summary\n   Succeeded    3\n", ()),
        (
            f"14:19:25 STDERR [db] terraform: │ Error: {QUOTA}\n14:19:26 ERROR  [db] Error: {QUOTA}\n{NOTHING}",
            (f"db: {QUOTA}",),
        ),
        (f'{NOTHING}\n* Failed to execute "terraform apply" in ./db/.terragrunt-cache/a/b', ("db: it failed",)),
    ],
    ids=[
        "Terragrunt's own format",
        "with CI timestamps",
        "in colour",
        "repeated with success",
        "all succeeded",
        "with the module's path before each line",
        "without prefixes, but for the failure",
        "keys and values",
        "JSON",
        "a summary alone",
        "a summary alone, repeated with success",
        "an error that is repeated",
        "the failed command",
    ],
)
def test_one_failed_module_is_a_failure_though_others_had_nothing_to_do(log, found):
    run = read_terraform_log(log)
    match found:
        case TerraformRun():
            assert run == found
        case "the same":
            assert run == read_terraform_log(PRETTY)
        case str():
            assert run.errors == (f"Terragrunt: {found}",)
        case _:
            assert run.errors == found
    assert run.is_futile is (not run.errors and run[:3] == (0, 0, 0))


RECREATED = [
    "aws_instance.pink[0]: Destruction complete after 41s",
    "aws_instance.pink[1]: Destruction complete after 41s",
    "aws_instance.pink[2] (deposed object 1c2d): Destruction complete after 41s",
    "aws_instance.pink[0]: Creation complete after 12s [id=i-0aaaaaaaaaaaaaaaa]",
    "aws_launch_template.pink: Modifications complete after 1s",
    "aws_instance.pink[1]: Still creating... [10s elapsed]",
]


def test_a_run_that_failed_shows_what_it_did_before():
    assert read_terraform_log("\n".join([*RECREATED, ERROR])) == TerraformRun(1, 1, 3, (FAILED,))
    assert read_terraform_log("\n".join(RECREATED)) == TerraformRun(), "it goes on, or was ended"


def test_terraforms_own_json_is_read():
    assert read_terraform_log(f'{{"@level":"info","@message":"{STATES}"}}') == TerraformRun(4, 1, 0)
    assert read_terraform_log(f'{{"@level":"error","@message":"Error: {QUOTA}"}}') == TerraformRun(errors=(QUOTA,))


@pytest.mark.parametrize("stamp", ["[2026-11-20T12:00:00.000Z] ", "2026-11-20T12:00:00+01:00 ", "[INFO] "])
def test_a_stamp_before_a_line_is_no_module(stamp):
    assert read_terraform_log(f"{stamp}Error: no quota\n{stamp}{NOTHING}").is_futile


@pytest.mark.parametrize(
    ("runs", "lacking"),
    [
        (
            [
                "Destroy complete! Resources: 4 destroyed.",
                "Apply complete! Resources: 2 added, 0 changed, 0 destroyed.",
            ],
            2,
        ),
        (
            [
                "Destroy complete! Resources: 4 destroyed.",
                "Apply complete! Resources: 4 added, 0 changed, 0 destroyed.",
            ],
            0,
        ),
        (["Destroy complete! Resources: 4 destroyed.", NOTHING, NOTHING], 4),
        (["Destroy complete! Resources: 4 destroyed.", "No changes.", STATES, NOTHING], 0),
        (["Apply complete! Resources: 1 added, 0 changed, 3 destroyed."], 2),
        ([STATES, "Destroy complete! Resources: 4 destroyed."], 4),
        ([STATES, ERROR], 0),
        ([*RECREATED, ERROR], 2),
        ([*RECREATED, ERROR, ERROR], 2),
        ([*RECREATED, ERROR, "Apply complete! Resources: 1 added, 0 changed, 0 destroyed."], 1),
        ([*RECREATED, ERROR, "Apply complete! Resources: 2 added, 0 changed, 0 destroyed."], 0),
        ([*RECREATED, "Apply complete! Resources: 1 added, 0 changed, 3 destroyed.", ERROR], 2),
        (["Destroy complete! Resources: 4 destroyed.", *RECREATED, ERROR], 6),
    ],
)
def test_what_was_destroyed_and_not_added_again_is_lacking(runs, lacking):
    assert read_terraform_log("\n".join(runs)).lacking == lacking


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
    found = read_terraform_log("\n".join(f"Error: {number}" + "x" * 1000 for number in range(50)))
    assert [len(error) for error in found.errors] == [200] * MOST_ERRORS
