"""Facts about the agent of an unhealthy runner: its registration, version, process and log. Pure.

The registration and the version come from GitHub, the process from the cluster, the log from the end of the runner's
container. On a machine only the machine itself knows its process and its log: `ON_A_MACHINE` says where to look. Times
are epoch seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from ghapp.deaths.death import Death, is_of
from ghapp.pods.never_started import why_not_started
from ghapp.pods.pod import Pod
from ghapp.runners.evidence import Evidence, missing_since
from ghapp.untrusted_text import one_line

LONGEST_LINE = 160

ON_A_MACHINE = (
    "On a machine: its service, `systemctl status 'actions.runner.*'`; its log, the newest `_diag/Runner_*.log`; its "
    "version, `./config.sh --version`; its registration, the file `.runner`"
)


def agent_facts(runner: Evidence, pods: Mapping[str, Pod], deaths: Sequence[Death], *, shows_logs: bool = True) -> str:
    """Returns what is known of a runner's agent, in one sentence.

    Args:
        runner: an unhealthy runner.
        pods: the pods of its pool, by name, from a fresh view; empty without a cluster.
        deaths: the latest deaths, in any order.
        shows_logs: False where the reader may not see logs, nor the cluster's own texts.
    """
    pod = pods.get(runner.name)
    named = (death for death in deaths if death.runner_name == runner.name)
    own = [each for each in named if each.runner_id == runner.id or (each.runner_id is None and is_of(each, runner))]
    death = max(own, key=lambda each: each.ended_at, default=None)
    facts = [_registration(runner), f"version {runner.version}" if runner.version else "version unknown"]
    if pod is not None and not pod.has_ended:
        facts.append(_process(pod, shows_texts=shows_logs))
    elif death is not None:
        facts.append(f"its container ended at {_time(death.at)}: {death.cause} ({death.reason})")
    elif pod is not None and pod.ended is not None:
        facts.append(f"its container ended with {pod.ended.exit_code} ({pod.ended.reason or 'no reason'})")
    if death is not None and death.runner_log and shows_logs:
        facts.append(f"its log ends with: {one_line(death.runner_log[-1], LONGEST_LINE)}")
    return f"{runner.name}: {', '.join(facts)}"


def _registration(runner: Evidence) -> str:
    if runner.confirmed_at is not None:
        return f"its registration is gone since {_time(missing_since(runner))}"
    if runner.absent_since is not None or runner.first_404_at is not None:
        return "missing from the last list of runners"
    if runner.offline_since is not None:
        return f"registered, offline since {_time(runner.offline_since)}"
    return "registered, offline"


def _process(pod: Pod, *, shows_texts: bool) -> str:
    """The cluster's texts may name internal registries and Secrets: they are for readers of logs."""
    why = why_not_started(pod)
    if why is not None:
        return f"its agent has not started: {why.reason}" + (f" ({why.text})" if why.text and shows_texts else "")
    if pod.runner is not None and pod.runner.running_since is not None:
        restarts = f", restarted {pod.runner.restarts} times" if pod.runner.restarts else ""
        return f"its container runs since {_time(pod.runner.running_since)}{restarts}"
    waiting = pod.runner.waiting if pod.runner is not None else ""
    return f"its container does not run: {waiting or pod.phase or 'no status'}"


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
