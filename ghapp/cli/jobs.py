"""`ghapp jobs`, `ghapp why`: workflow jobs, and why a queued one waits."""

from __future__ import annotations

import json
from typing import Any

import click

from ghapp.cli.backend import JobReference, query
from ghapp.cli.context import show

SORTS = ("age", "pool", "repository")


@click.command(short_help="List workflow jobs, and why queued ones wait.")
@click.option("--queued", "state", flag_value="queued", help="Only queued jobs.")
@click.option("--running", "state", flag_value="running", help="Only running jobs.")
@click.option("--unserved", "state", flag_value="unserved", help="Only queued jobs that no online runner can take.")
@click.option("--org", help="Only this organization (default: all).")
@click.option("--pool", help="Only jobs of this pool.")
@click.option("--sort", type=click.Choice(SORTS), default="age", show_default=True, help="Order; age: oldest first.")
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="Jobs to list.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def jobs(state: str | None, org: str | None, pool: str | None, sort: str, limit: int, *, as_json: bool) -> None:
    """List the queued and running jobs of self-hosted runners, and why queued ones wait.

    Example: ghapp jobs --org acme --queued --pool linux-4vcpu
    """
    found = query(lambda backend: backend.jobs(org, state, pool))
    orders: dict[str, Any] = {
        "age": lambda each: (each["queued_at"], each["job_id"]),
        "pool": lambda each: (each["pool"], each["queued_at"], each["job_id"]),
        "repository": lambda each: (each["repository"], each["queued_at"], each["job_id"]),
    }
    found.sort(key=orders[sort])
    if as_json:
        click.echo(json.dumps({"jobs": found[:limit], "total": len(found)}, indent=2))
        return
    from ghapp.terminal.job_tables import jobs_table

    show(jobs_table(found[:limit], len(found)))


@click.command(short_help="Show why a job waits.")
@click.argument("org")
@click.argument("job_or_url")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def why(org: str, job_or_url: str, *, as_json: bool) -> None:
    """Show why a job waits, and what to do. JOB_OR_URL: the id of a job, or the URL of a job or of a run.

    Example: ghapp why acme https://github.com/acme/api/actions/runs/41/job/42
    """
    reference = JobReference.parse(job_or_url)
    if reference is None:
        message = f"{job_or_url!r} is neither the id of a job nor the URL of a job or of a run"
        raise click.BadParameter(message, param_hint="JOB_OR_URL")
    found = query(lambda backend: backend.jobs_referred_to(org, reference))
    if as_json:
        click.echo(json.dumps({"jobs": found}, indent=2))
        return
    from ghapp.terminal.job_tables import job_explanations

    show(job_explanations(found))
