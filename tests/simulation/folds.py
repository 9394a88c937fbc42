"""Folds that jobs make of the pure ones."""

from __future__ import annotations

from collections.abc import Callable

from ghapp.health.remediation.decision import is_as_planned
from ghapp.health.runner.evidence import Evidence, Fold


def if_known(change: Callable[[Evidence], Evidence]) -> Fold:
    """The change of a record that must be there; whom nobody knows any more stays unknown."""
    return lambda evidence: None if evidence is None else change(evidence)


def as_planned(planned: Evidence, change: Callable[[Evidence], Evidence]) -> Fold:
    """The change of a record that still is what was planned for."""
    return lambda found: change(found) if found is not None and is_as_planned(planned, found) else found
