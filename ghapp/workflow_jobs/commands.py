"""`ghapp jobs`, `ghapp why`: workflow jobs, and why a queued one waits."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import click

from ghapp.cli.api_client import ApiClient, JobReference, host_of
from ghapp.cli.api_connection import only_org, query, query_of_pool
from ghapp.cli.context import NO_ORGANIZATION, show
from ghapp.cli.options import (
    ORG,
    POOL,
    WATCH,
    WEB,
    CommandOutput,
    OutputCommand,
    json_fields,
    links,
    links_of,
    open_page,
    sort,
)
from ghapp.errors import ConfigurationError
from ghapp.untrusted_text import shell_command
from ghapp.workflow_jobs.documents import JobDocument, list_order
from ghapp.workflow_jobs.job import SHORTEST_SHA, JobOrigin, JobSearch, PullReference, is_sha
from ghapp.workflow_jobs.reason import STUCK

SHOWN, PRINTED = 20, 100
"""Jobs of a table, of which a terminal shows the first rows, and of JSON, without `--limit`."""


def _by_state(document: Mapping[str, Any]) -> tuple[int, bool, float, int]:
    why = document["why"]
    return list_order(
        document["state"],
        is_stuck=why is not None and why["reason"] in STUCK,
        queued_at=_epoch(document["queued_at"]),
        latest_at=_epoch(document["ended_at"] or document["started_at"] or document["queued_at"]),
        job_id=document["job_id"],
    )


def _epoch(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()


@click.command(cls=OutputCommand, short_help="List workflow jobs, and why queued ones wait.")
@click.option("--queued", "state", flag_value="queued", help="Only queued jobs.")
@click.option("--running", "state", flag_value="running", help="Only running jobs.")
@click.option("--unserved", "state", flag_value="unserved", help="Only queued jobs that no online runner can take.")
@click.option("--over", "state", flag_value="over", help="Only jobs that ended within the last hour.")
@click.option(
    "--failed", "state", flag_value="failed", help="Only jobs that ended within the last hour and did not succeed."
)
@click.option("--runner", default="", metavar="NAME", help="Only jobs that this runner took, of the last 30 days.")
@click.option("--sha", default="", metavar="COMMIT", help="Only jobs of this commit, of the last 30 days.")
@click.option("--pull", default="", metavar="REPO#N", help="Only jobs of this pull request, of the last 30 days.")
@click.option("--branch", default="", metavar="NAME", help="Only jobs of this branch.")
@click.option("--actor", default="", metavar="LOGIN", help="Only jobs of runs that this person triggered.")
@ORG
@POOL
@sort(state="queued ones first, as on the page", age="the oldest first", pool="by pool", repository="by repository")
@click.option("--limit", type=click.IntRange(min=1), help=f"Jobs to list (default: {SHOWN}, with --json {PRINTED}).")
@WATCH
@WEB
@json_fields(JobDocument, more=["org"])
def jobs(
    state: str | None,
    runner: str,
    sha: str,
    pull: str,
    branch: str,
    actor: str,
    org: str | None,
    pool: str | None,
    sort: str,
    limit: int | None,
    *,
    web: bool,
    output: CommandOutput,
) -> None:
    """List the queued and running jobs of self-hosted runners, and why queued ones wait.

    With --runner, --sha or --pull (OWNER/REPO#NUMBER, or its URL) also those that ended within the last 30 days; with
    --branch or --actor those of the last hour.

    Example: ghapp jobs --actor lisa --queued --pool linux-4vcpu
    """
    if sha and not is_sha(sha):
        message = f"{sha!r} is not the id of a commit, or its first {SHORTEST_SHA} digits or more"
        raise click.BadParameter(message, param_hint="--sha")
    if web:
        selected = {"pool": pool, "state": state, "text": runner or sha}
        selected |= {"branch": branch, "actor": actor}
        open_page(pages.selected("jobs", **selected) if (pages := links_of(org)) else links("").home)
        return
    reference = PullReference.parse(pull)
    if pull and reference is None:
        raise click.BadParameter(f"{pull!r} is neither OWNER/REPO#NUMBER nor a pull request's URL", param_hint="--pull")
    search, origin = JobSearch(runner, sha), JobOrigin(branch, actor)

    others = ""

    async def read(client: ApiClient) -> list[Any]:
        nonlocal others
        await client.require_github(host_of(pull))
        selected = await client.jobs(org, state, pool, search, reference, origin)
        if runner and not selected:
            await client.require_runner(org, runner)
        if reference is not None and not selected:
            others = await client.other_repositories(org, reference)
        return selected

    found = query_of_pool(read, org, pool)
    orders: dict[str, Any] = {
        "state": _by_state,
        "age": lambda each: (each["queued_at"], each["job_id"]),
        "pool": lambda each: (not each["pool"], each["pool"], each["queued_at"], each["job_id"]),
        "repository": lambda each: (each["repository"], each["queued_at"], each["job_id"]),
    }
    found.sort(key=orders[sort])
    if output.is_json:
        printed = found[: limit or PRINTED]
        output.print({"jobs": printed, "total": len(found)}, printed)
        return
    from ghapp.terminal.job_tables import jobs_table, no_jobs

    if not found:
        change = "" if reference is None else f"{reference.repository}#{reference.number}"
        searched = [change, f"commit {sha}" if sha else "", f"runner {runner}" if runner else ""]
        of_origin = [f"branch {branch}" if branch else "", actor]
        show(no_jobs(state, searched, of_origin, [f"pool {pool}" if pool else "", org or ""], others))
        return
    show(jobs_table(found, limit or SHOWN, time.time()))


NEEDS_ITS_ORG = "the id of a job needs its ORG unless exactly one organization is known (`ghapp doctor` lists them)"


@click.command(cls=OutputCommand, short_help="Show a job's whole story: why it waits, how it ended.")
@click.argument("org_and_job", nargs=-1, required=True, metavar="[ORG] JOB_OR_URL")
@WATCH
@WEB
@json_fields(JobDocument, more=["org"])
def why(org_and_job: tuple[str, ...], *, web: bool, output: CommandOutput) -> None:
    """Show a job's whole story: why it waits or waited, which runner took it, how that died, where it runs again.

    JOB_OR_URL: the id or the URL of a job (its page at GitHub or here) or of a run, the URL of a check run "Runner
    post-mortem" or "Runner queue", or that of a runner's death here. ORG is needed beside an id where several
    organizations are known. A URL needs none: the organization, repository or enterprise whose runner took the job
    answers, and for a job that waits the organization.

    Of a runner: `ghapp explain ORG NAME`.

    Example: ghapp why https://github.com/acme/api/actions/runs/41/job/42
    """
    *orgs, job_or_url = org_and_job
    if len(orgs) > 1:
        raise click.UsageError(f"one ORG and one JOB_OR_URL, not {len(org_and_job)} arguments")
    reference = JobReference.parse(job_or_url)
    if reference is None:
        message = f"{job_or_url!r} is neither the id nor the URL of a job or of a run{_see(job_or_url, *orgs)}"
        raise click.BadParameter(message, param_hint="JOB_OR_URL")
    org = orgs[0] if orgs else reference.scope or None

    async def read(client: ApiClient) -> tuple[list[dict[str, Any]], str | None]:
        scope = org
        if org is None and not reference.repository and (scope := await only_org(client)) is None:
            if not await client.orgs():
                raise ConfigurationError(NO_ORGANIZATION)
            raise click.UsageError(f"{NEEDS_ITS_ORG}: `ghapp why ORG JOB`; the URL of a job needs none")
        return await client.jobs_referred_to(reference, scope), client.page_url

    is_known_by_url = bool(reference.repository) and not reference.is_check_run  # whether it is of a job or of a run
    if web and org is not None and is_known_by_url:
        open_page(links(org).jobs if reference.job_id is None else links(org).job(reference.job_id))
        return
    found, page_url = query(read)
    if web:
        open_page(_page_of(found))
        return
    if output.is_json:
        output.print({"jobs": found}, found)
        return
    from ghapp.report.links import PageLinks
    from ghapp.terminal.job_tables import job_explanations

    show(job_explanations(found, lambda each: PageLinks(page_url, each["org"]).job(each["job_id"])))


def _see(text: str, org: str = "ORG") -> str:
    """Returns which command lists the jobs of a pull request or of a commit, or explains the runner of that name."""
    option = "--pull" if PullReference.parse(text) else "--sha" if is_sha(text) else ""
    if option:
        return f"; its jobs: `{shell_command('ghapp', 'jobs', option, text)}`"
    is_name = re.fullmatch(r"[\w.-]+", text) is not None
    return f"; a runner of that name: `{shell_command('ghapp', 'explain', org, text)}`" if is_name else ""


def _page_of(jobs: Sequence[Mapping[str, Any]]) -> str | None:
    """Returns the page of a job; of several jobs of a run, the list of the jobs of its commit."""
    pages = links(jobs[0]["org"])
    if len(jobs) == 1:
        return pages.job(jobs[0]["job_id"])
    return pages.selected("jobs", text=jobs[0]["head_sha"])
