"""Renders the jobs of the report: a row for each pool, and jobs that no online runner can take."""

from __future__ import annotations

from collections import defaultdict

from ghapp.report.check_run import time_of
from ghapp.report.fleet import FleetView
from ghapp.report.markdown import NOTHING, code, cut, heading, row
from ghapp.untrusted_text import shell_command
from ghapp.workflow_jobs.demand import PoolDemand
from ghapp.workflow_jobs.job import Job

ROOM = 12_000
"""Maximum characters of each part."""

COLUMNS = ("Queued", "Running", "Oldest queued", "Idle runners", "Unserved")


def queue_table(fleet: FleetView, now: float) -> str:
    """Renders a row for each pool with jobs or online runners; empty without any.

    The numbers change all the time. They are as of the report's last post, and cause none.
    """
    pools = [each for each in fleet.demand if each.queued or each.running or each.online]
    if not pools:
        return ""
    head = f"\n\nJobs as of {time_of(now)}; unserved: no online runner can take the job.\n\n"
    numbers = [each for each in COLUMNS if each != "Oldest queued"]
    return cut(head + heading("Pool", *COLUMNS, numbers=numbers), map(_pool, pools), len(pools), ROOM, "pools")


def _pool(pool: PoolDemand) -> str:
    oldest = NOTHING if pool.oldest_queued_at is None else time_of(pool.oldest_queued_at)
    return row(code(pool.pool), str(pool.queued), str(pool.running), oldest, str(pool.idle), str(pool.unserved))


def unserved_text(fleet: FleetView) -> str:
    """Renders jobs that no online runner can take, by pool and reason; empty if there are none."""
    found: dict[tuple[str, str], list[Job]] = defaultdict(list)
    for each in fleet.unserved:
        found[each.pool, each.reason].append(each.job)
    if not found:
        return ""
    count = len(fleet.unserved)
    head = f"### No online runner can take {'1 queued job' if count == 1 else f'{count} queued jobs'}\n\n"
    command = code(shell_command("ghapp", "jobs", "--unserved", "--org", fleet.org))
    head += f"{command} lists them; `ghapp why` explains one.\n\n"
    head += heading("Pool", "Reason", "Jobs", "Oldest since", numbers=("Jobs",))
    rows = (
        row(code(pool), reason, str(len(jobs)), time_of(min(job.queued_at for job in jobs)))
        for (pool, reason), jobs in sorted(found.items())
    )
    return cut(head, rows, len(found), ROOM, "pools")
