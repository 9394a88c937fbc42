"""The incidents that `ghapp up --sandbox` can start: by name, by number in the terminal, and by default.

Each starts controls of the sandbox by HTTP (`ghapp.sandbox.control`), and names the page where its effects are seen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ghapp.errors import ConfigurationError
from ghapp.local.pipeline import SandboxDeploy, SandboxPipeline
from ghapp.local.sandbox import Sandbox, SandboxError

MISSPELT_LABEL = "linux-4vpcu"
"""Requested by one job of the sandbox, so that no runner can take it."""

INCIDENT_POOL, INCIDENT_RUNNERS = "linux-4vcpu", 12
MASS_LOSS_RUNNERS = 40
"""A quarter of the pool, so that its fuse trips, and with the 12 less than a fifth of the fleet: the fuse of all pools
stays closed."""


class Scenario(NamedTuple):
    """One incident.

    Attributes:
        name: on the command line.
        control: of the sandbox, by its name in the URL.
        arguments: of the control.
        look: one line: what was done and what to look at; `{0}` is the result of the control, or the first of several.
            Not what follows: a pause or a fuse may prevent it, and the line stays.
        page: path of the page to look at; `{0}` as in `look`.
        after_seconds: from the first view of the fleet to its start.
    """

    name: str
    control: str
    arguments: Mapping[str, Any]
    look: str
    page: str
    after_seconds: float = 0.0

    def start(self, sandbox: Sandbox) -> StartedScenario | None:
        """Starts it; None if no runner is in the state that it needs: try again later."""
        result = sandbox.control(self.control, **self.arguments)
        if result is not None and not result:
            return None
        results = result if isinstance(result, list) else [result]
        return StartedScenario(self.name, self.look.format(*results), self.page.format(*results), _deploys(result))


class StartedScenario(NamedTuple):
    """A scenario that was started: its name, its line, the path of its page, and what it deployed."""

    name: str
    look: str
    page: str
    deploys: Sequence[SandboxDeploy] = ()


def _deploys(result: Any) -> list[SandboxDeploy]:
    """Returns the deploys among the results of a control."""
    if not isinstance(result, dict):
        return []
    return [
        SandboxDeploy(each["shard"], each["role"], each["sha"], len(each["runners"]))
        for each in result.get("deploys", [result])
    ]


LOSS = Scenario(
    "loss",
    "lose",
    {"count": INCIDENT_RUNNERS, "pool": INCIDENT_POOL},
    f"{INCIDENT_RUNNERS} registrations were deleted in {INCIDENT_POOL}; their processes run on.",
    "/orgs/acme/incidents",
)
NO_LABEL = Scenario(
    "no-label",
    "queue",
    {"labels": [MISSPELT_LABEL]},
    "A job with a misspelt label waits: `ghapp why acme {0}`",
    "/orgs/acme/jobs/{0}",
)
STOPPED_RUNNER = Scenario(
    "stopped-runner",
    "stop-runner",
    {"pool": "linux-8vcpu"},
    "The runner of job {0} was stopped before a step of the job's own had begun: `ghapp why acme {0}`",
    "/orgs/acme/deaths",
)

SCENARIOS = (
    LOSS,
    Scenario(
        "mass-loss",
        "lose",
        {"count": MASS_LOSS_RUNNERS, "pool": INCIDENT_POOL},
        f"{MASS_LOSS_RUNNERS} registrations were deleted in {INCIDENT_POOL} at once, a quarter of the pool.",
        "/orgs/acme/incidents",
    ),
    Scenario(
        "oom",
        "out-of-memory",
        {},
        "The container of job {0} reached its memory limit. Its post-mortem names the cause: host-oom.",
        "/orgs/acme/deaths/{1}",
    ),
    Scenario(
        "leak",
        "forget-pods",
        {"count": 2},
        "A controller forgot {0} and another pod: the line cluster has them until the reaper deletes them.",
        "/orgs/acme#cluster",
    ),
    Scenario(
        "phantom",
        "lose-pod",
        {},
        "The pod of {0} was deleted, and ARC still counts its runner: a phantom; 0 heals it.",
        "/orgs/acme#cluster",
    ),
    Scenario(
        "permission",
        "withhold-permission",
        {"seconds": 45},
        "The App's permission to read runners was taken away for 45 s; meanwhile no runner counts as lost.",
        "/orgs/acme",
    ),
    NO_LABEL,
    Scenario(
        "github-down",
        "fault",
        {"status": 502, "seconds": 45},
        "GitHub was made to answer 502 for 45 s; meanwhile no runner counts as lost.",
        "/orgs/acme/github",
    ),
    Scenario(
        "gate",
        "deploy",
        {"shard": "pink", "badly": True, "repository": "infra"},
        "The shard pink was deployed without 3 of its 4 runners (0 heals it): `ghapp gate acme rollout pink`",
        "/orgs/acme/gate",
    ),
)
"""In the order of the number keys."""

HEAL = Scenario(
    "heal",
    "heal-by-hand",
    {"repository": "infra"},
    "What 5, 7 and 9 leave to a person is done: {0[done]}.",
    "/orgs/acme",
)

KEYS, HEAL_KEY = "123456789", "0"
MOST_SHOWN = 5

DEFAULT = (
    NO_LABEL,
    STOPPED_RUNNER._replace(after_seconds=5.0),
    LOSS._replace(after_seconds=15.0),
)
"""Started without `--scenario`."""


class Director:
    """Starts scenarios when they are due, or when their key is pressed.

    Attributes:
        started: what was started, the oldest first.
    """

    def __init__(
        self, sandbox: Sandbox, scenarios: Sequence[Scenario], pipeline: SandboxPipeline | None = None
    ) -> None:
        """`pipeline` reports the deploys; None: they are not reported."""
        self._sandbox, self._waiting, self._pipeline = sandbox, list(scenarios), pipeline
        self._unreported: list[SandboxDeploy] = []
        self._began: float | None = None
        self.started: list[StartedScenario] = []

    @property
    def shown(self) -> list[StartedScenario]:
        """Returns the last ones that were started."""
        return self.started[-MOST_SHOWN:]

    def press(self, keys: Iterable[str]) -> None:
        """Schedules the scenarios of these keys; keys without one do nothing."""
        known = {**dict(zip(KEYS, SCENARIOS, strict=True)), HEAL_KEY: HEAL}
        self._waiting += [known[key]._replace(after_seconds=0.0) for key in keys if key in known]

    async def start_due(self, now: float) -> None:
        """Starts what is due; call it repeatedly, as soon as the fleet is seen.

        Args:
            now: in seconds, by a clock that never goes back.
        """
        self._began = now if self._began is None else self._began
        for scenario in [each for each in self._waiting if now - self._began >= each.after_seconds]:
            try:
                started = await asyncio.to_thread(scenario.start, self._sandbox)
            except SandboxError as error:
                started = StartedScenario(scenario.name, f"{scenario.name} could not be started: {error}", "/")
            if started is not None:
                self._waiting.remove(scenario)
                self.started.append(started)
                self._unreported += started.deploys
        if self._pipeline is not None and self._unreported:
            self._unreported = await asyncio.to_thread(self._pipeline.report, self._unreported)


def keys_line() -> str:
    """Returns the keys, each with the name of its scenario."""
    names = [f"{key} {each.name}" for key, each in zip(KEYS, SCENARIOS, strict=True)]
    return "  ".join([*names, f"{HEAL_KEY} heal 5, 7 and 9"])


def scenario_called(name: str) -> Scenario:
    """Returns the scenario of that name.

    Raises:
        ConfigurationError: there is none; the message lists all.
    """
    for each in SCENARIOS:
        if each.name == name:
            return each
    names = ", ".join(each.name for each in SCENARIOS)
    raise ConfigurationError(f"--scenario: {name!r} is unknown; there are {names}")
