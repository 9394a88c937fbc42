"""The facts about the agent of an unhealthy runner, as far as GitHub, the cluster and the log give them."""

from __future__ import annotations

import pytest

from ghapp.deaths.cause import Cause
from ghapp.gate.agents import ON_A_MACHINE
from ghapp.gate.judgement import MOST_AGENTS, GateRequest
from ghapp.pods.pod import Container, Ended, Pod
from tests.rules.builders import NOW, lost, present, suspect
from tests.rules.gate.builders import at_work, death, gate, on, why

RUNNER = "check the agents of pink: pink-1"


def pod(container=None, **changes):
    return Pod("runners", "pink-1", "u", "1", NOW - 900, container="runner", runner=container, **changes)


def facts(runner, **known):
    return why(gate([on("pink", runner), *at_work()], **known), RUNNER).split(ON_A_MACHINE)[0]


RISK = "stopping pink later kills the job that it took. "
"""It comes first: a long text is cut at its end."""


@pytest.mark.parametrize(
    ("runner", "known", "found"),
    [
        (present(), {}, f"{RISK}pink-1: registered, offline since 2026-09-21 13:13 UTC, version unknown. "),
        (lost(version="2.336.0"), {}, "pink-1: its registration is gone since 2026-09-21 14:12 UTC, version 2.336.0. "),
        (suspect(), {}, "pink-1: missing from the last list of runners, version unknown. "),
        (
            present(),
            {"pods": {"pink-1": pod(Container("runner", running_since=NOW - 600, restarts=2))}},
            "version unknown, its container runs since 2026-09-21 14:03 UTC, restarted 2 times. ",
        ),
        (
            present(),
            {"pods": {"pink-1": pod(Container("runner", waiting="ImagePullBackOff", waiting_message="no such tag"))}},
            "its agent has not started: ImageNotPulled (no such tag). ",
        ),
        (present(), {"pods": {"pink-1": pod(phase="Pending")}}, "its container does not run: Pending. "),
        (
            present(),
            {"pods": {"pink-1": pod(Container("runner", ended=Ended(137, None, "OOMKilled")))}},
            "its container ended with 137 (OOMKilled). ",
        ),
        (
            present(),
            {"deaths": [death(1, Cause.CRASH)._replace(runner_log=("first", "\x1b[31mNo space\nleft"))]},
            "its container ended at 2026-09-21 14:12 UTC: crash (OOMKilled), its log ends with: \ufffd[31mNo space left. ",
        ),
        (
            present(),
            {"deaths": [death(2)]},
            "pink-1: registered, offline since 2026-09-21 13:13 UTC, version unknown. ",
        ),
    ],
    ids=[
        "offline",
        "lost",
        "not confirmed",
        "its container runs",
        "its image is not pulled",
        "its pod waits",
        "its container ended",
        "its death has a log",
        "another runner's death",
    ],
)
def test_the_facts_of_an_agent(runner, known, found):
    assert facts(runner, **known).endswith(found)


def test_no_line_of_a_log_is_shown_to_who_may_not_read_logs():
    ended = [death(1)._replace(runner_log=("the secret",))]
    assert "the secret" in facts(present(), deaths=ended)
    assert "the secret" not in facts(present(), deaths=ended, shows_logs=False)


def test_no_text_of_the_cluster_is_shown_to_who_may_not_read_logs():
    waits = Container("runner", waiting="ImagePullBackOff", waiting_message="registry.internal/secret: no such tag")
    pods = {"pink-1": pod(waits)}
    assert "registry.internal" in facts(present(), pods=pods)
    assert facts(present(), pods=pods, shows_logs=False).endswith("its agent has not started: ImageNotPulled. ")


def test_only_some_agents_are_described_and_the_active_shards_agents_have_no_risk():
    many = [on("purple", present(), number) for number in range(1, 9)]
    answer = gate(many, GateRequest("purple"))
    (step,) = [each for each in answer.next if each.step.startswith("check the agents of purple")]
    assert step.why.count("registered, offline") == MOST_AGENTS
    assert step.why.endswith(ON_A_MACHINE)
    assert step.why.startswith("purple-1: registered")
