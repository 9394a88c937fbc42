"""Counts how often in a row the deploys of a shard failed. Pure; times are epoch seconds.

A deploy passed if the gate passed at any time after it, or if it was reported as active. It failed if its provisioning
failed, or the gate did not pass, and the shard was deployed again before the gate passed. A deploy that no gate judged
counts as neither. The gate is judged with the pool's own `min_online`: a request for more runners, a version or a
canary changes no count.
"""

from __future__ import annotations

from typing import NamedTuple

from ghapp.gate.active_shard import Deploy, Role
from ghapp.gate.terraform_log import TerraformRun

MOST_FAILURES = 1_000_000


class DeployReport(NamedTuple):
    """What a deployer reports of a shard, in lower case. None: as reported last.

    Attributes:
        deployed_at: time of the deploy.
        ref: the deployed commit or tag.
        by: name of the reporter's token.
        provision: result of the provisioning.
    """

    shard: str
    role: Role
    deployed_at: float | None = None
    ref: str | None = None
    by: str = ""
    provision: TerraformRun | None = None


def reported(last: Deploy | None, report: DeployReport, now: float) -> Deploy:
    """Returns the shard's new record. Another `ref` is another deploy, of now unless the report has a time."""
    ref = report.ref if report.ref is not None else "" if last is None else last.ref
    at = report.deployed_at
    if at is None:
        at = last.deployed_at if last is not None and last.ref == ref else now
    if last is not None and is_same(last, at, ref):
        first = min(last.first_reported_at, now)  # the clock may have jumped back
        deploy = last._replace(role=report.role, reported_at=now, by=report.by, first_reported_at=first)
    else:
        deploy = Deploy(report.shard, report.role, at, now, ref, report.by, now, failures_after(last))
        if last is not None and last.provision is not None and last.provision.lacking:
            deploy = deploy._replace(provision=TerraformRun(destroyed_before=last.provision.lacking))
    if report.provision is not None:
        deploy = deploy._replace(provision=provision_of(deploy, report.provision))
        if report.provision.errors and deploy.failed_at is None:
            deploy = deploy._replace(failed_at=now)
    if report.role is Role.ACTIVE and deploy.passed_at is None:
        deploy = deploy._replace(passed_at=now)
    return deploy


def provision_of(deploy: Deploy | None, run: TerraformRun | None) -> TerraformRun | None:
    """Returns a run, or else the reported one, with what earlier deploys destroyed; None if neither is known."""
    known = None if deploy is None else deploy.provision
    if run is None or run.is_empty:
        return None if known is None or known.is_empty else known
    return run if known is None else run._replace(destroyed_before=max(run.destroyed_before, known.destroyed_before))


def is_same(deploy: Deploy, deployed_at: float, ref: str) -> bool:
    """True if these identify the same deploy of its shard."""
    return (deploy.deployed_at, deploy.ref) == (deployed_at, ref)


def judged(deploy: Deploy, now: float, startup_seconds: float, *, passed: bool, failed: bool) -> Deploy:
    """Returns the record after one evaluation of the gate, which was judged with the pool's own `min_online`.

    Args:
        deploy: the last deploy of the shard.
        now: time of the evaluation.
        startup_seconds: how long new runners may take to come online.
        passed: True if the gate passed.
        failed: True if the shard was judged and failed; both are False while it cannot be judged.
    """
    if deploy.passed_at is not None:  # what comes later is no failure of the deploy
        return deploy
    if passed:
        return deploy._replace(passed_at=now)
    if failed and deploy.failed_at is None and _had_time(deploy, now, startup_seconds):
        return deploy._replace(failed_at=now)
    return deploy


def failures_after(last: Deploy | None) -> int:
    """Returns how many deploys of a shard failed in a row, its last one included."""
    if last is None or last.passed_at is not None:
        return 0
    return min(last.failures + (last.failed_at is not None), MOST_FAILURES)


def failures_now(deploy: Deploy, now: float, startup_seconds: float) -> int:
    """Returns how many failed in a row if the gate fails now: of a deploy that passed before, it is the first."""
    if deploy.passed_at is not None:
        return 1
    return max(1, deploy.failures + (deploy.failed_at is not None or _had_time(deploy, now, startup_seconds)))


def _had_time(deploy: Deploy, now: float, startup_seconds: float) -> bool:
    """True if the runners of the deploy had the time to start. A clock that jumped back proves nothing."""
    return now - max(deploy.first_reported_at, deploy.deployed_at) >= startup_seconds
