"""Parses ARC's EphemeralRunners. No I/O.

Lenient about types as well: ARC has changed the types of its fields, and one unusual object must not hide the others.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import msgspec

from ghapp.cluster.wire import envelope
from ghapp.cluster.wire.envelope import Items, Meta, ObjectPage
from ghapp.decoding import LONGEST_TEXT, RowDecoder
from ghapp.pods.pod import EphemeralRunner, registered_at

SCALE_SET = "actions.github.com/scale-set-name"

_GENERATED = re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5}$")
"""The suffix that Kubernetes appends for `generateName`."""

MOST_DIGITS = 19


class _RunnerStatus(msgspec.Struct, rename="camel"):
    phase: Any = None
    reason: Any = None
    message: Any = None
    runner_id: Any = None
    runner_name: Any = None
    job_id: Any = None
    job_request_id: Any = None
    job_repository_name: Any = None
    workflow_run_id: Any = None
    failures: Any = None


class _EphemeralRunner(msgspec.Struct):
    metadata: Meta
    status: _RunnerStatus | None = None


_runner = msgspec.json.Decoder(_EphemeralRunner)
_runners = RowDecoder[Items[_EphemeralRunner]]("ephemeral-runner", Items[_EphemeralRunner], whole_rows=True)


def ephemeral_runner(body: bytes | msgspec.Raw, read_at: float | None = None) -> EphemeralRunner:
    """`GET /apis/actions.github.com/v1alpha1/namespaces/{namespace}/ephemeralrunners/{name}`, and a watch's object.

    `read_at`: time of the answer by the API server's clock.
    """
    return _value(envelope.read(_runner, body), read_at)


def ephemeral_runners(body: bytes, read_at: float | None = None) -> ObjectPage[EphemeralRunner]:
    """`GET /apis/actions.github.com/v1alpha1/namespaces/{namespace}/ephemeralrunners`, one page."""
    return envelope.page(_runners, body, partial(_value, read_at=read_at))


def _value(found: _EphemeralRunner, read_at: float | None) -> EphemeralRunner:
    meta, status = found.metadata, found.status or _RunnerStatus()
    labels = meta.labels or {}
    return EphemeralRunner(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        created_at=meta.created_at,
        phase=_text(status.phase),
        reason=_text(status.reason),
        message=_text(status.message),
        runner_id=_number(status.runner_id),
        runner_name=_text(status.runner_name),
        # Older versions have only the number of the job request: such a runner is busy, too.
        job_id=_text(status.job_id) or _text(status.job_request_id),
        workflow_run_id=_number(status.workflow_run_id),
        failures=_failures(status.failures),
        finalizers=tuple(meta.finalizers or ()),
        deleting_since=meta.deleting_since,
        scale_set=labels.get(SCALE_SET) or _owning_set(meta),
        org=registered_at(labels),
        read_at=read_at,
        repository=_text(status.job_repository_name),
    )


def _owning_set(meta: Meta) -> str:
    """Derives the scale set from the name of the EphemeralRunnerSet: the scale set's name and a generated suffix."""
    owners = (each.name for each in meta.owner_references or () if each.kind == "EphemeralRunnerSet")
    return _GENERATED.sub("", next(owners, ""))


def _failures(value: Any) -> int:
    """Counts the failures by pod; their values are `true` in older versions, times in newer ones."""
    return sum(1 for each in value.values() if each) if isinstance(value, dict) else 0


def _text(value: Any) -> str:
    """Returns the first `LONGEST_TEXT` characters of a string, or a number as one; empty for 0, Go's zero value."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return ""
    return str(value)[:LONGEST_TEXT] if value else ""


def _number(value: Any) -> int | None:
    text = _text(value)
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS else None
