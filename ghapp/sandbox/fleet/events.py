"""The events of a fleet."""

from __future__ import annotations

from dataclasses import dataclass

from ghapp.sandbox.fleet.jobs import JobAction, SandboxJob
from ghapp.sandbox.fleet.runners import Runner


@dataclass(frozen=True, slots=True)
class JobMoved:
    """A job was queued, started or completed; `job` is a copy from that moment."""

    action: JobAction
    job: SandboxJob
    at: float


@dataclass(frozen=True, slots=True)
class RunnerOnline:
    """A newly registered runner is ready for work."""

    runner: Runner
    at: float


@dataclass(frozen=True, slots=True)
class RunnerEnded:
    """An ephemeral runner did its one job; its process has ended and its registration is deleted."""

    runner: Runner
    at: float


FleetEvent = JobMoved | RunnerOnline | RunnerEnded
