"""Tables of workflow jobs, and why a queued one waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from ghapp.deaths.job_outcome import failure_text
from ghapp.deaths.job_story import HELD, StoryStep
from ghapp.deaths.texts import details
from ghapp.runners.verdict import State
from ghapp.terminal.tables import (
    ShrinkingTable,
    ago,
    constant_column,
    copyable,
    count_line,
    more_line,
    new_table,
    to_the_second,
)
from ghapp.untrusted_text import cut_to, visible
from ghapp.wording import counted
from ghapp.workflow_jobs.demand import NO_POOL
from ghapp.workflow_jobs.explanation import usual_wait
from ghapp.workflow_jobs.job import SHORTEST_SHA
from ghapp.workflow_jobs.labels import labels_text
from ghapp.workflow_jobs.texts import KNOWN_JOBS, failure_of_job, origin_text

MOST_EXPLANATIONS = 5
"""Below a list of jobs; `ghapp why` has the whole one of each job."""

LONGEST_BRANCH = 24
"""Maximum characters of a branch in a table; the end of a longer one is left out."""

OPTIONAL = ("runner", "commit", "workflow / job", "pool", "by", "repository")
"""Columns that a narrow terminal does not show, in the order in which they are left out."""

STATE_COLOURS = {"queued": "yellow", "running": "green", "over": "bright_black"}


def jobs_table(documents: Sequence[Mapping[str, Any]], limit: int, now: float) -> RenderableType:
    """Returns a row per job, up to `limit`, and counts of all; `now` is in epoch seconds."""
    shown = documents[:limit]
    origin = ("repository", "branch", "commit", "by")
    rows = new_table("org", "pool", "job", *origin, "workflow / job", "state", "since", "reason", "runner")
    for each in shown:
        cause = "" if each["death"] is None else each["death"]["cause"]
        failure = failure_text(each["conclusion"] or "", each["failed_by"], cause)
        if each["runner"] is None and each["state"] == "over" and each["waited_for"]:
            failure += f": waited for {each['waited_for']}"
        if (later := each["later_attempt"]) is not None:
            again = later["attempt"] if later["job_id"] is None else f"{later['attempt']} (job {later['job_id']})"
            failure += f"; run again as attempt {again}"
        reason = each["why"]["reason"] if each["why"] is not None else failure
        state = Text(each["state"], STATE_COLOURS[each["state"]])
        rows.add_row(
            *(
                each["org"],
                each["pool"] or labels_text(each["labels"]),
                str(each["job_id"]),
                each["repository"],
                cut_to(each["head_branch"], LONGEST_BRANCH),
                each["head_sha"][:SHORTEST_SHA],
                f"{each['actor']}{' (re-run)' if each['rerun_by'] else ''}",
                full_name(each),
                state,
            ),
            *(ago(_since(each), now), reason, each["runner"] or ""),
        )
    parts: list[RenderableType] = [
        count_line(len(shown), len(documents), "job", Counter(each["state"] for each in documents)),
        ShrinkingTable(rows, [*constant_column("org", shown), *OPTIONAL]),
        *_why_they_wait(documents),
    ]
    if len(shown) < len(documents):
        parts.append(more_line(len(documents) - len(shown), len(shown)))
    return Group(*parts)


_KINDS: Mapping[str | None, str] = {
    None: "queued or running job",
    "queued": "queued job",
    "running": "running job",
    "unserved": "unserved job",
    "over": "ended job",
    "failed": "failed job",
}


def no_jobs(
    state: str | None, searched: Sequence[str], of_origin: Sequence[str], places: Sequence[str], others: str = ""
) -> RenderableType:
    """Returns the sentence in place of an empty list.

    Args:
        state: as of `ghapp jobs`; None: any.
        searched: what jobs of the last 30 days were searched by, or empty texts.
        of_origin: the branch and the person whose jobs were selected, or empty texts.
        places: the pool and the organization that they were looked for in, or empty texts.
        others: which repositories have jobs, if the one that they were searched by has none.
    """
    is_search, has_origin = any(searched), any(of_origin)
    kind = "job" if (is_search or has_origin) and state is None else _KINDS[state]
    of = "".join(f" of {each}" for each in (*searched, *of_origin, *places) if each)
    ended = "jobs that ended are listed for an hour; --runner, --sha and --pull find those of 30 days"
    known = ended if (has_origin or state in ("over", "failed")) and not is_search else KNOWN_JOBS
    return copyable(f"no {kind}{of} is known: {known}{f'; {others}' if others else ''}")


def _since(document: Mapping[str, Any]) -> str | None:
    """Returns since when a job is in its state."""
    at: Mapping[str, str | None] = {"running": document["started_at"], "over": document["ended_at"]}
    return at.get(document["state"]) or document["queued_at"]


def _why_they_wait(documents: Sequence[Mapping[str, Any]]) -> list[Text]:
    """Returns why these jobs wait, each explanation once with its first step, the commonest first."""
    known = [each["why"] for each in documents if each["why"] is not None]
    counts = Counter((why["reason"], why["text"]) for why in known)
    steps = {(why["reason"], why["text"]): why["next"][0]["step"] for why in known if why["next"]}
    lines: list[Text] = []
    for words, count in counts.most_common(MOST_EXPLANATIONS):
        reason, text = words
        step = f" → {steps[words]}" if words in steps else ""
        lines.append(copyable(f" {reason} ({counted(count, 'job')}): {text}{step}"))
    return lines


def full_name(document: Mapping[str, Any]) -> str:
    """Returns a job's name with its workflow's: many workflows have a job `test`."""
    return " / ".join(each for each in (document["workflow"], document["name"]) if each)


def pools_table(pools: Sequence[Mapping[str, Any]], runners: Sequence[Mapping[str, Any]], now: float) -> RenderableType:
    """Returns a row per pool: its runners by state, its jobs, and jobs that no online runner can take; then its shards.

    Args:
        pools: the queues of the pools.
        runners: that are not past; empty: their states are left out.
        now: epoch seconds.
    """
    counts = Counter((each["org"], each["pool"], each["state"]) for each in runners)
    states = [each.value for each in State if any(state == each for _, _, state in counts)]
    rows = new_table("org", "pool", *states, "idle", "queued", "running", "oldest queued", "unserved")
    for each in pools:
        of_states = [str(counts[each["org"], each["pool"], state]) if each["pool"] else "" for state in states]
        unserved = Text(str(each["unserved"]), "red" if each["unserved"] else "")
        jobs = (str(each["idle"]), str(each["queued"]), str(each["running"]), ago(each["oldest_queued_at"], now))
        rows.add_row(each["org"], each["pool"] or NO_POOL, *of_states, *jobs, unserved)
    shards = [
        copyable(f" shards of {each['pool']}: {' · '.join(shard['text'] for shard in each['shards'])}", "dim")
        for each in pools
        if each["shards"]
    ]
    return Group(Text(), ShrinkingTable(rows, [*constant_column("org", pools), "oldest queued"]), *shards)


def job_explanations(
    documents: Sequence[Mapping[str, Any]], page: Callable[[Mapping[str, Any]], str | None] = lambda _: None
) -> RenderableType:
    """Returns for each job its state, its story, why it waits, the next steps, and the address of its page if known."""
    return Group(*(part for each in documents for part in _explanation(each, page(each))))


def _explanation(document: Mapping[str, Any], page: str | None) -> list[Text]:
    head = copyable(f"{document['repository']} {full_name(document)} ({document['job_id']})")
    state, why = document["state"], document["why"]
    if document["summary"] is None:
        head.append(" ended" if state == "over" else f" is {state}", STATE_COLOURS[state])
    events = [each for each in document["story"] if why is None or each["step"] != StoryStep.WAITS]  # the head has why
    story = [(to_the_second(each["at"]), each["text"]) for each in events]
    width = max((len(at) for at, _ in story), default=0)
    death = document["death"]
    lines = [] if death is None else [*details(death["cause"], death["memory_limit"], death["last_line"])]
    origin = (document["head_branch"], document["head_sha"], document["actor"], document["rerun_by"] or "")
    if origin_line := origin_text(*origin):
        lines.insert(0, origin_line)
    lines += [f"{at:{width}}  {text}" for at, text in story]
    if why is None:
        lines += _steps(document["next"])
    if death is not None:
        lines.append(f"advice for the platform team: {death['advice']}")
    if document["html_url"] and document["html_url"] not in [each["url"] for each in document["next"]]:
        lines.append(document["html_url"])
    if page is not None:
        lines.append(f"page: {page}")
    if why is None:
        head.append(visible(_without_reason(document)))
        return [head, *(copyable(f"  {line}") for line in lines)]
    head.append(visible(f" since {to_the_second(why['since'])}: {why['text']} ({why['reason']})"))
    if why["ahead"] is not None:
        usual = usual_wait(why["typical_wait_seconds"] or 0.0)
        lines.append("; ".join(filter(None, (f"jobs ahead in pool {document['pool']}: {why['ahead']}", usual))))
    lines += _steps(document["next"])
    if why["fails_at"] is not None:
        lines.append(failure_of_job("the job", to_the_second(why["fails_at"])))
    return [head, *(copyable(f"  {line}") for line in lines)]


def _steps(steps: Sequence[Mapping[str, Any]]) -> list[str]:
    lines: list[str] = []
    for number, each in enumerate(steps, 1):
        at = f": {each['url']}" if each["url"] else ""
        lines += [f"{number}. {each['step']}{at}", f"   {each['why']}"]
    return lines


def _without_reason(document: Mapping[str, Any]) -> str:
    if document["summary"] is not None:
        return f": {document['summary']}"
    if document["state"] == "queued":
        if any(each["text"].endswith(HELD) for each in document["story"]):
            return f": {HELD}"
        return ": GitHub has assigned no runner yet; no reason is known (is the list of runners fresh? `ghapp doctor`)"
    runner = f" on {document['runner']}" if document["runner"] else ""
    if document["state"] == "running":
        return f"{runner} since {to_the_second(document['started_at'])}"
    ended = "" if document["ended_at"] is None else f" at {to_the_second(document['ended_at'])}"
    return f"{runner}{ended}: {document['conclusion'] or 'no conclusion was delivered'}"
