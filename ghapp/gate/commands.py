"""`ghapp gate`: decides whether a shard may take over; waits for the gate to pass, and to keep passing."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from io import SEEK_END
from math import isfinite
from pathlib import Path
from typing import Any

import click

from ghapp.cli.api_client import ApiClient
from ghapp.cli.api_connection import query
from ghapp.cli.completion import complete_pools
from ghapp.cli.options import ORG_ARGUMENT, WEB, CommandOutput, OutputCommand, json_fields, links, open_page
from ghapp.errors import ServerUnavailableError, StoreUnavailableError
from ghapp.exit_codes import FAILED, INTERRUPTED
from ghapp.gate.gate_checks import Stability, stability_after
from ghapp.gate.judgement import LONGEST_CHANGE, STOP, Gate, GateRequest, held_for
from ghapp.gate.next_steps import wait_command
from ghapp.gate.shard_status import is_shard
from ghapp.gate.terraform_log import LARGEST_BYTES, TerraformRun, read_terraform_log
from ghapp.gate.texts import NAME, NOTHING_TO_DO, mark_of
from ghapp.report.documents import GateDocument, gate_document
from ghapp.untrusted_text import visible

POLL_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class GateTimeouts:
    """How long to wait, in seconds.

    Attributes:
        pass_seconds: for the gate to pass; 0: query it once.
        hold_seconds: in all, for a gate that passes to keep passing; at least `pass_seconds`.
        settle_seconds: how long it must keep passing; 0: a single pass is enough.
    """

    pass_seconds: float = 0.0
    hold_seconds: float = 0.0
    settle_seconds: float = 0.0


async def watch(
    query: Callable[[], Awaitable[Gate]],
    timeouts: GateTimeouts,
    clock: Callable[[], float],
    pause: Callable[[float], Awaitable[None]],
    report: Callable[[Gate | None, float], None],
) -> Gate:
    """Queries the gate until it has passed for long enough, or until a timeout.

    Args:
        query: judges the gate once.
        timeouts: how long to wait.
        clock: monotonic seconds.
        pause: sleeps for a number of seconds.
        report: called after each query with its result (None: no answer) and the seconds waited so far.

    Raises:
        StoreUnavailableError, ServerUnavailableError: no answer, and the timeout is over.
    """
    began, settling = clock(), Stability()
    while True:
        try:
            gate = await query()
        except (StoreUnavailableError, ServerUnavailableError):
            settling = Stability()
            if clock() - began >= timeouts.pass_seconds:
                raise
            report(None, clock() - began)
            await pause(POLL_SECONDS)
            continue
        settling = stability_after(settling, gate)
        result = held_for(gate, settling.held, timeouts.settle_seconds) if timeouts.settle_seconds else gate
        waited = clock() - began
        report(result, waited)
        if result.passed or waited >= (timeouts.hold_seconds if gate.passed else timeouts.pass_seconds):
            return result
        await pause(POLL_SECONDS)


SETTLE_SWEEPS = 3
"""Sweep intervals that are added to the settle time: each list confirms the last, and arrives up to one later."""

LONGEST_SECONDS = 86_400.0


class Seconds(click.FloatRange):
    """A duration. Rejects `nan`, which click accepts within any range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Returns the value as a number from 0 to `LONGEST_SECONDS`."""
        seconds = float(super().convert(value, param, ctx))
        if not isfinite(seconds):
            self.fail(f"{value} is not a number of seconds", param, ctx)
        return seconds


SECONDS = Seconds(min=0, max=LONGEST_SECONDS)


@click.command(cls=OutputCommand, short_help="Judge whether a shard may take over.")
@ORG_ARGUMENT
@click.argument("pool", shell_complete=complete_pools)
@click.argument("shard")
@click.option("--min-online", type=click.IntRange(min=1), help="Runners that must be online (default: the pool's).")
@click.option("--timeout", type=SECONDS, help="Seconds in all to wait until the gate passes (default: no wait).")
@click.option("--settle", type=SECONDS, help="Seconds for which it must keep passing (default: the pool's).")
@click.option("--version", help="The version that these runners must have.")
@click.option("--canary", is_flag=True, help="Require a job completed on the shard since its deploy.")
@click.option("--provision-log", type=click.Path(path_type=Path), help="Terraform's output; used to advise on a retry.")
@click.option("--expect-new", is_flag=True, help="Accept a shard without any known runner or deploy.")
@click.option("--changed", metavar="WHAT", help="What was changed since the failure, so that a retry may help.")
@click.option(
    "--failures",
    type=click.IntRange(min=1),
    default=1,
    help="How often in a row it has failed, where its deploys are not reported.",
)
@WEB
@json_fields(GateDocument)
def gate(
    org: str,
    pool: str,
    shard: str,
    min_online: int | None,
    timeout: float | None,
    settle: float | None,
    version: str | None,
    provision_log: Path | None,
    changed: str | None,
    failures: int,
    *,
    canary: bool,
    expect_new: bool,
    web: bool,
    output: CommandOutput,
) -> None:
    """May this shard take over? Exits with 0 if it may; with 1 and the next steps if not; with 130 on Ctrl-C.

    Example: ghapp gate acme linux-4vcpu pink --min-online 3 --timeout 600 --settle 60
    """
    if not is_shard(shard):
        raise click.BadParameter(f"{shard!r} is not a valid name of a shard", param_hint="SHARD")
    if version == "":
        raise click.BadParameter("give a version, like 2.336.0; leave it out for any version", param_hint="--version")
    if changed is not None and not 0 < len(changed.strip()) <= LONGEST_CHANGE:
        why = f"name what was changed, in {LONGEST_CHANGE} characters at most"
        raise click.BadParameter(why, param_hint="--changed")
    if web:
        open_page(links(org).gate)
        return
    log = None if provision_log is None else _read(provision_log)

    async def judge(client: ApiClient) -> Gate:
        source = await client.gate(org, pool)
        timeouts = _timeouts(timeout, source.settle_seconds or 0.0 if settle is None else settle, source.sweep_seconds)
        least = min_online or source.min_online
        request = GateRequest(shard, least, version, canary, log, expect_new, failures, changed or "")
        report = Progress().report if timeouts.hold_seconds else _report_nothing
        return await watch(lambda: source.judge(request), timeouts, time.monotonic, asyncio.sleep, report)

    try:
        result = query(judge)
    except KeyboardInterrupt:  # not a failure of the gate: there is no result
        click.echo("ghapp: interrupted before there was a result", err=True)
        sys.exit(INTERRUPTED)
    if output.is_json:
        output.print(gate_document(result))
    else:
        click.echo("\n".join(map(visible, lines(result, timeout, wait_command(org, pool, shard)))))
    if not result.passed:
        sys.exit(FAILED)


def _timeouts(timeout: float | None, settle_seconds: float, sweep_seconds: float) -> GateTimeouts:
    """Returns how long to wait; `timeout` is None unless it was given."""
    if timeout is not None and timeout < settle_seconds:
        raise click.UsageError(
            f"--timeout {timeout:g} is shorter than the {settle_seconds:g} seconds to settle; raise --timeout"
        )
    longest = settle_seconds + SETTLE_SWEEPS * sweep_seconds if settle_seconds else 0.0
    return GateTimeouts(timeout or 0.0, longest if timeout is None else timeout, settle_seconds)


class Progress:
    """Prints on stderr what the gate waits for, whenever that changes."""

    def __init__(self) -> None:
        self._last = ""

    def report(self, gate: Gate | None, waited: float) -> None:
        """Called after each query; `gate` is None without an answer, `waited` is in seconds."""
        if gate is None:
            status = "no answer; retrying"
        elif gate.passed:
            status = "passed"
        else:
            status = next(check.text for check in gate.checks if check.decides and not check.passed)
        if status != self._last:
            click.echo(visible(f"{waited:5.0f} s: {status}"), err=True)
        self._last = status


def _report_nothing(_gate: Gate | None, _waited: float) -> None:
    return


def lines(gate: Gate, timeout: float | None = None, wait: str = "") -> list[str]:
    """Returns the gate's result as lines of text; the impact on users comes first.

    Args:
        gate: the result.
        timeout: the seconds that it had to pass; None or 0: it was judged once.
        wait: the command that waits until it passes; shown if it was judged once.
    """
    passed = "passes" if gate.passed else f"does not pass{f' within {timeout:g} s' if timeout else ''}"
    output = [f"{gate.pool}/{gate.shard} ({gate.role}) {passed}"]
    output += [f"  {mark_of(check):2} {check.name:12} {check.text}" for check in gate.checks]
    if gate.next:
        output.append("next, cheapest and safest first:")
    elif gate.passed:
        output.append(NOTHING_TO_DO)
    for number, step in enumerate(gate.next, 1):
        output += [f"  {number}. {step.step}", *(f"     {each}" for each in step.sentences)]
    if wait and not gate.passed and not timeout and gate.next and gate.next[0].step != STOP:
        output.append(f"to wait until it passes: {wait}")
    if gate.check_url is not None:
        output.append(f'check run "{NAME}": {gate.check_url}')
    return output


def _read(path: Path) -> TerraformRun:
    try:
        with path.open("rb") as file:
            if file.seekable() and file.seek(0, SEEK_END) > LARGEST_BYTES:
                file.seek(-LARGEST_BYTES, SEEK_END)
            elif file.seekable():
                file.seek(0)
            log = file.read(LARGEST_BYTES + 1)
    except OSError as error:
        raise click.BadParameter(f"cannot read {path}: {error.strerror}", param_hint="--provision-log") from None
    if len(log) > LARGEST_BYTES:  # a pipe cannot be read from its end
        raise click.BadParameter(f"{path} has more than {LARGEST_BYTES:,} bytes", param_hint="--provision-log")
    found = read_terraform_log(log.decode("utf-8", "replace"))
    if found.is_empty:
        click.echo(f"ghapp: {path} has no result of a Terraform run; continuing without it", err=True)
    return found
