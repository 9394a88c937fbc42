"""Renders the check run "Runner post-mortem" on a job's commit. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ghapp.deaths.cause import HAPPENED, Cause, needed_change, not_yours, rerun_label
from ghapp.deaths.death import LEAST_OF_BURST, Correlation, DeadJob, Death
from ghapp.deaths.job_outcome import POST_MORTEM, RUNS_AGAIN, JobStep, LaterAttempt
from ghapp.deaths.job_story import StoryEvent
from ghapp.report.check_run import CheckRunAction, Conclusion, Report
from ghapp.report.markdown import NOTHING, block, code, heading, prose, row
from ghapp.wording import capitalized, sentence, time_of

NAME = POST_MORTEM
"""The check run's name."""

RERUN = CheckRunAction(rerun_label(Cause.UNKNOWN, ""), "Run this job and its dependents again", "rerun")
"""The button; its label depends on the cause."""


def rerun_subject(runner_name: str) -> str:
    """Returns what the audit log has of a press of the button, on the check run or on a page.

    Everyone who sees the fleet reads that log, so it has the runner and not the repository.
    """
    return f"the job of {runner_name}"


NOTHING_COMMON = Correlation()

RERUN_OF_CHECK = '"Re-run" of this check itself runs no job again.'

NOT_THE_CAUSE = "The job came to its own result, which its runner's end did not decide."

_URL = re.compile(r"https?://[\w.:/-]+", re.ASCII)
"""Links of no other form are shown, so that none can end the Markdown around it."""

ROOM_FOR_LINES = 24_000
"""Maximum characters for each log in the text. Both logs and the rest stay under GitHub's limit."""


def post_mortem_report(
    death: Death,
    job: DeadJob,
    *,
    is_private: bool,
    story: Sequence[StoryEvent] = (),
    steps: Sequence[JobStep] = (),
    has_button: bool = False,
    common: Correlation = NOTHING_COMMON,
    again: LaterAttempt | None = None,
    is_cause: bool = True,
    page: str | None = None,
) -> Report:
    """Renders the check run on a job's commit.

    The conclusion is neutral, unless a person must change something before the job can succeed: the job itself has
    failed, and this check run must neither block a merge nor look like another failure of the developer's code.

    Args:
        death: of the job's runner.
        job: as GitHub has it.
        is_private: True if only members can read the repository: in another one hosts and logs are not shown.
        story: of the job, and of its re-run.
        steps: what its developer can do.
        has_button: True if a person may request the re-run here.
        common: what the death has in common with earlier ones.
        again: the latest attempt of the job; None if it was not run again.
        is_cause: False if the job came to its result for another reason than this death.
        page: of the job, which follows its later attempts; None if its address is not known.
    """
    node = code(death.node) if death.node and is_private else ""
    # Reason, exit code and signal are for the platform team, in the table below.
    shown = death._replace(runner_name=code(death.runner_name), node=node, reason="", exit_code=None, signal=None)
    happened, _, _ = sentences(shown)
    title, whose = NOT_THE_CAUSE.removesuffix("."), NOT_THE_CAUSE
    if is_cause:
        title = HAPPENED[death.cause] if again is None else f"{HAPPENED[death.cause]}; {_result(again)}"
        whose = not_yours(death.cause, death.reason, is_run_again=again is not None)
    lines = [
        *_stands(again),
        f"{happened} {whose}",
        *_steps(steps),
        *_story(story),
    ]
    button = RERUN._replace(label=rerun_label(death.cause, death.reason))
    if has_button:
        lines.append(f'The button "{button.label}" {RUNS_AGAIN}. {RERUN_OF_CHECK}')
    return Report(
        title=title,
        summary="\n\n".join((*lines, f"Job: {_job_link(job)}{_page(page)}")),
        text="\n\n".join(_text(death, job, common, is_private=is_private)),
        conclusion=Conclusion.ACTION_REQUIRED
        if needed_change(death.cause, death.reason) and is_cause and again is None
        else Conclusion.NEUTRAL,
        actions=(button,) if has_button else (),
    )


def _stands(again: LaterAttempt | None) -> Iterable[str]:
    """How a job stands that was run again. Where an attempt is that goes on changes, and causes no post."""
    if again is not None:
        ended = f". {prose(sentence(again.text))}"
        yield f"The job was run again{ended if again.result else f' as attempt {again.attempt} of the run.'}"


def _result(again: LaterAttempt) -> str:
    """The same in a title, which has no text of others."""
    return f"attempt {again.attempt} {again.result}" if again.result else f"run again as attempt {again.attempt}"


def _job_link(job: DeadJob) -> str:
    return _linked(code(job.name or str(job.id)), job.html_url)


def _page(page: str | None) -> str:
    return "" if page is None else f"; where it is now: {_linked('its page', page)}"


def _linked(text: str, url: str) -> str:
    return f"[{text}]({url})" if _URL.fullmatch(url) else text


def _steps(steps: Sequence[JobStep]) -> Iterable[str]:
    """What the job's developer can do; why stands above, as the sentence on the job's code."""
    if steps:
        lines = (f"{number}. {_linked(sentence(each.step), each.url)}" for number, each in enumerate(steps, 1))
        yield "\n".join(("What to do:", "", *lines))


def _story(story: Sequence[StoryEvent]) -> Iterable[str]:
    """The job's story, an event a line."""
    if story:
        yield "\n".join(f"- {_event(each)}" for each in story)


def _event(event: StoryEvent) -> str:
    if event.at is None:
        return prose(capitalized(event.full_text))
    return f"{time_of(event.at)}: {prose(event.full_text)}"


def _common(death: Death, common: Correlation, *, is_private: bool) -> Iterable[str]:
    """What the death has in common with earlier ones, a line each."""
    if common.on_node > 1:
        node = f"node {code(death.node)}" if is_private else "its node"
        yield f"- It is death number {common.on_node} on {node} within seven days."
    if common.of_pool >= LEAST_OF_BURST:
        yield f"- {common.of_pool} runners of pool {code(death.pool)} died since {time_of(common.since)}."


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
        not_yours(death.cause, death.reason),
        f"For the platform team: {death.advice}",
    )


def _text(death: Death, job: DeadJob, common: Correlation, *, is_private: bool) -> Iterable[str]:
    yield "### For the platform team"
    yield death.advice
    if alike := list(_common(death, common, is_private=is_private)):
        yield "\n".join(alike)
    yield "\n".join((heading("Fact", "Value"), *(row(*each) for each in _facts(death, job, is_private=is_private))))
    if not is_private and (death.runner_log or death.host_log):
        yield "Logs, which may name other repositories, are not shown in a public one: see `ghapp explain` or the API."
        return
    if death.runner_log:
        yield "### Last lines of the runner's log"
        yield block(death.runner_log, ROOM_FOR_LINES)
    if death.host_log:
        yield "### Log of its node, from one minute before to one minute after"
        yield block(death.host_log, ROOM_FOR_LINES, middle=True)


def _facts(death: Death, job: DeadJob, *, is_private: bool) -> Iterable[tuple[str, str]]:
    yield "Cause", code(death.cause.value)
    yield "Job", _job_link(job)
    yield "Pool", code(death.pool) if death.pool else NOTHING
    yield "Runner", code(death.runner_name)
    yield "Ended", time_of(death.at)
    if death.pod:
        yield "Exit code", NOTHING if death.exit_code is None else str(death.exit_code)
        yield "Signal", NOTHING if death.signal is None else str(death.signal)
    yield "Reason", code(death.reason)
    if death.memory_limit:
        yield "Memory", memory_text(death.cause, code(death.memory_limit))
    if is_private and death.pod:
        yield "Pod", code(f"{death.namespace}/{death.pod}" if death.namespace else death.pod)
        yield "Node", code(death.node)
    if is_private and death.image:
        yield "Image", code(death.image)


def memory_text(cause: str, limit: str) -> str:
    """Returns what is known of the container's memory; `limit`: its limit as it is to be shown."""
    return f"limit {limit}, reached" if cause == Cause.HOST_OOM else f"limit {limit}; the use at its end is not known"


def last_line(log: Sequence[str]) -> str:
    """Returns the last line of a log that has a text; empty without one."""
    return next((line for line in reversed(log) if line.strip()), "")


OF_MEMORY = frozenset({Cause.HOST_OOM, Cause.GUEST_OOM_OR_KILL})


def details(cause: str, memory_limit: str, line: str) -> tuple[str, ...]:
    """Returns what the developer of a job needs beside the cause, a line each.

    Args:
        cause: of the death, possibly of another version.
        memory_limit: of the runner's container; empty if it is not known.
        line: the `last_line` of the runner's log.
    """
    memory = f"memory: {memory_text(cause, memory_limit)}" if memory_limit and cause in OF_MEMORY else ""
    return tuple(filter(None, (memory, f"last line of the runner's log: {line}" if line else "")))
