"""`ghapp gate`: may this shard take over."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from io import SEEK_END
from math import isfinite
from pathlib import Path
from typing import Any

import click

from ghapp.cli.context import FAILED, opened, run, settings_here
from ghapp.cli.gate_query import GateQuery, blue_green
from ghapp.cli.gate_wait import Patience, watch
from ghapp.health.gate.judgement import Gate, GateRequest
from ghapp.health.gate.terraform_log import LARGEST_BYTES, TerraformRun, read_terraform_log
from ghapp.health.shards import is_shard
from ghapp.settings import PoolSettings, Settings

SWEEPS = 3
"""Passing holds from one list to another: so many intervals more are waited for the lists that show it."""

LONGEST_SECONDS = 86_400.0

INTERRUPTED = 130
"""As shells tell of Ctrl-C."""


class Seconds(click.FloatRange):
    """A time to wait. Click takes `nan` for a number within any range, and nobody ever waits that long."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """As a number from 0 to `LONGEST_SECONDS`."""
        seconds = float(super().convert(value, param, ctx))
        if not isfinite(seconds):
            self.fail(f"{value} is no number of seconds", param, ctx)
        return seconds


SECONDS = Seconds(min=0, max=LONGEST_SECONDS)


@click.command()
@click.argument("org")
@click.argument("pool")
@click.argument("shard")
@click.option("--min-online", type=click.IntRange(min=1), help="Runners that must be online; else the pool's.")
@click.option("--timeout", type=SECONDS, help="Wait for it to pass, so many seconds in all.")
@click.option("--settle", type=SECONDS, help="Passing must hold for so many seconds; else the pool's.")
@click.option("--version", help="The version that these runners must have.")
@click.option("--canary", is_flag=True, help="One job must have been completed on it since its deploy.")
@click.option("--provision-log", type=click.Path(path_type=Path), help="Terraform's output: may it help to run again?")
@click.option("--expect-new", is_flag=True, help="The shard is to be new: no runner and no deploy of it need be known.")
@click.option("--failures", type=click.IntRange(min=1), default=1, help="How often in a row it has failed by now.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def gate(
    org: str,
    pool: str,
    shard: str,
    min_online: int | None,
    timeout: float | None,
    settle: float | None,
    version: str | None,
    provision_log: Path | None,
    failures: int,
    *,
    canary: bool,
    expect_new: bool,
    as_json: bool,
) -> None:
    """May this shard take over? Exits 0 when it may, and 1 when not, with what to do next; 130 when interrupted.

    Example: ghapp gate acme linux-4vcpu pink --min-online 3 --timeout 600 --settle 60
    """
    if not is_shard(shard):
        raise click.BadParameter(f"{shard!r} is no shard's name", param_hint="SHARD")
    settings = settings_here()
    rule = blue_green(settings, org, pool)
    hold = settle if settle is not None else rule.settle_seconds or 0.0
    if version == "":
        raise click.BadParameter("it takes a version, as 2.336.0; leave it out for any", param_hint="--version")
    if timeout is not None and timeout < hold:
        raise click.UsageError(f"--timeout {timeout:g} leaves no time to settle for {hold:g} seconds; give it more")
    log = None if provision_log is None else _read(provision_log)
    question = GateRequest(shard, min_online or rule.min_online, version, canary, log, expect_new, failures)
    longest = hold + SWEEPS * settings.of(org).sweep.interval_seconds if hold else 0.0
    patience = Patience(timeout or 0.0, longest if timeout is None else timeout, hold)
    try:
        answer = run(_watch(settings, org, rule, question, patience))
    except KeyboardInterrupt:  # it is not said to fail: nobody waited for the answer
        click.echo("ghapp: interrupted; whether it passes is not known", err=True)
        sys.exit(INTERRUPTED)
    if as_json:
        click.echo(json.dumps(answer.document(), indent=2))
    else:
        click.echo("\n".join(map(_printable, lines(answer))))
    if not answer.passed:
        sys.exit(FAILED)


async def _watch(settings: Settings, org: str, pool: PoolSettings, question: GateRequest, patience: Patience) -> Gate:
    async with opened(settings) as redis:
        look = GateQuery(settings, redis, org, pool)
        say = Progress().say if patience.hold_seconds else _say_nothing
        return await watch(lambda: look.judge(question), patience, time.monotonic, asyncio.sleep, say)


class Progress:
    """Tells on stderr what is waited for, whenever that is something else."""

    def __init__(self) -> None:
        self._last = ""

    def say(self, gate: Gate | None, waited: float) -> None:
        """After each look."""
        if gate is None:
            said = "Redis does not answer"
        elif gate.passed:
            said = "passed"
        else:
            said = next(check.said for check in gate.checks if check.decides and not check.passed)
        if said != self._last:
            click.echo(_printable(f"{waited:5.0f} s: {said}"), err=True)
        self._last = said


def _say_nothing(_gate: Gate | None, _waited: float) -> None:
    return


def lines(gate: Gate) -> list[str]:
    """The answer for people: whether users are hurt comes first."""
    passed = "passes" if gate.passed else "does not pass"
    told = [f"{gate.pool}/{gate.shard} ({gate.role}) {passed}"]
    for check in gate.checks:
        mark = "ok" if check.passed else "NO" if check.decides else "!"
        told.append(f"  {mark:2} {check.name:12} {check.said}")
    if gate.next:
        told.append("next, cheapest and safest first:")
    for number, step in enumerate(gate.next, 1):
        told += [f"  {number}. {step.step}", f"     {step.why}"]
    return told


def _printable(line: str) -> str:
    """Strangers name runners: nothing that they write moves the cursor."""
    return "".join(each if each.isprintable() else " " for each in line)


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
    if len(log) > LARGEST_BYTES:  # of a pipe the end is not to be had without all that comes before
        raise click.BadParameter(f"{path} has more than {LARGEST_BYTES:,} bytes", param_hint="--provision-log")
    found = read_terraform_log(log.decode("utf-8", "replace"))
    if found == TerraformRun():
        click.echo(f"ghapp: {path} does not say what Terraform did; going on without it", err=True)
    return found
