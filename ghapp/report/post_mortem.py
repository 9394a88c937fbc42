"""Renders the check run "Runner post-mortem" on a job's commit. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from ghapp.health.deaths.cause import HAPPENED, NOT_YOURS
from ghapp.health.deaths.death import DeadJob, Death
from ghapp.report.check_run import Conclusion, Report
from ghapp.report.documents import timestamp
from ghapp.report.markdown import NOTHING, block, code, heading, row

NAME = "Runner post-mortem"
"""The check run's name."""

ROOM_FOR_LINES = 24_000
"""Maximum characters for each log in the text. Both logs and the rest stay under GitHub's limit."""


def post_mortem_report(death: Death, job: DeadJob, *, show_host: bool) -> Report:
    """Renders the check run on a job's commit; `show_host` is True if the repository is private.

    The conclusion is neutral: the job itself has already failed, and this check run must neither block a merge nor
    look like another failure of the developer's code.
    """
    node = code(death.node) if death.node and show_host else ""
    reason = code(death.reason) if death.reason else ""
    shown = death._replace(runner_name=code(death.runner_name), node=node, reason=reason)
    return Report(
        title=f"This job's runner died: {death.cause.value}",
        summary=" ".join(sentences(shown)),
        text="\n\n".join(_text(death, job, show_host=show_host)),
        conclusion=Conclusion.NEUTRAL,
        actions=(),
    )


def sentences(death: Death) -> tuple[str, str, str]:
    """Returns three sentences: what happened, whether the job's code caused it, and advice for the platform team.

    The second sentence admits where the job may have contributed.
    """
    happened = HAPPENED[death.cause]
    where = f" on node {death.node}" if death.node else ""
    details = [death.reason] if death.reason else []
    details += [f"exit code {death.exit_code}"] if death.exit_code is not None else []
    details += [f"signal {death.signal}"] if death.signal is not None else []
    in_brackets = f" ({', '.join(details)})" if details else ""
    return (
        f"{happened}: {death.runner_name}{where}{in_brackets}.",
        NOT_YOURS[death.cause],
        f"For the platform team: {death.advice}",
    )


def _text(death: Death, job: DeadJob, *, show_host: bool) -> Iterable[str]:
    yield "\n".join((heading("Fact", "Value"), *(row(*each) for each in _facts(death, job, show_host=show_host))))
    if death.runner_log:
        yield "### Last lines of the runner's log"
        yield block(death.runner_log, ROOM_FOR_LINES)
    if death.host_log and show_host:
        yield "### Log of its node, from one minute before to one minute after"
        yield block(death.host_log, ROOM_FOR_LINES, middle=True)
    if death.host_log and not show_host:
        yield "The node's log is not shown in a public repository; read it with `ghapp explain` or the API."


def _facts(death: Death, job: DeadJob, *, show_host: bool) -> Iterable[tuple[str, str]]:
    yield "Cause", code(death.cause.value)
    yield "Job", code(job.name or str(job.id))
    yield "Runner", code(death.runner_name)
    yield "Ended", timestamp(death.at)
    yield "Exit code", NOTHING if death.exit_code is None else str(death.exit_code)
    yield "Signal", NOTHING if death.signal is None else str(death.signal)
    yield "Reason", code(death.reason)
    if show_host:
        yield "Pod", code(f"{death.namespace}/{death.pod}" if death.namespace else death.pod)
        yield "Node", code(death.node)
