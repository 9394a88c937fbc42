"""Parses ARC's AutoscalingRunnerSets and EphemeralRunnerSets, as far as the number of wanted runners goes. No I/O."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from ghapp.cluster.wire import envelope
from ghapp.cluster.wire.envelope import Items, Meta, ObjectPage
from ghapp.decoding import RowDecoder
from ghapp.pods.scale_sets import ScaleSet


class _AutoscalingSpec(msgspec.Struct, rename="camel"):
    min_runners: Any = None
    runner_scale_set_name: Any = None


class _AutoscalingRunnerSet(msgspec.Struct):
    metadata: Meta
    spec: _AutoscalingSpec | None = None


class _SetSpec(msgspec.Struct):
    replicas: Any = None


class _EphemeralRunnerSet(msgspec.Struct):
    metadata: Meta
    spec: _SetSpec | None = None


class WantedRunners(NamedTuple):
    """An EphemeralRunnerSet: its owner's uid, and the number of runners that it wants."""

    owners: frozenset[str]
    replicas: int


class RunnerSet(NamedTuple):
    """An AutoscalingRunnerSet without the number of runners that it wants."""

    uid: str
    scale_set: ScaleSet


_autoscaling = RowDecoder[Items[_AutoscalingRunnerSet]](
    "autoscaling-runner-set", Items[_AutoscalingRunnerSet], whole_rows=True
)
_sets = RowDecoder[Items[_EphemeralRunnerSet]]("ephemeral-runner-set", Items[_EphemeralRunnerSet], whole_rows=True)


def runner_sets(body: bytes, _read_at: float | None = None) -> ObjectPage[RunnerSet]:
    """`GET /apis/actions.github.com/v1alpha1/namespaces/{namespace}/autoscalingrunnersets`, one page."""
    return envelope.page(_autoscaling, body, _runner_set)


def wanted_runners(body: bytes, _read_at: float | None = None) -> ObjectPage[WantedRunners]:
    """`GET /apis/actions.github.com/v1alpha1/namespaces/{namespace}/ephemeralrunnersets`, one page."""
    return envelope.page(_sets, body, _wanted)


def scale_sets(found: Iterable[RunnerSet], wanted: Iterable[WantedRunners]) -> list[ScaleSet]:
    """Returns the sets with what they want. While a set is updated, it has two EphemeralRunnerSets: both count."""
    replicas: defaultdict[str, int] = defaultdict(int)
    for each in wanted:
        for owner in each.owners:
            replicas[owner] += each.replicas
    return [each.scale_set._replace(replicas=replicas[each.uid]) for each in found]


def _runner_set(found: _AutoscalingRunnerSet) -> RunnerSet:
    meta, spec = found.metadata, found.spec or _AutoscalingSpec()
    named = spec.runner_scale_set_name
    label = named if isinstance(named, str) and named else meta.name
    return RunnerSet(meta.uid, ScaleSet(meta.namespace, meta.name, label, _count(spec.min_runners), 0))


def _wanted(found: _EphemeralRunnerSet) -> WantedRunners:
    replicas = 0 if found.metadata.deletion_timestamp is not None or found.spec is None else found.spec.replicas
    return WantedRunners(frozenset(each.uid for each in found.metadata.owner_references or ()), _count(replicas))


def _count(value: Any) -> int:
    """Returns a number of runners; 0 for anything else, as for a set without `minRunners`."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
