"""Folds of the jobs, made of the pure ones."""

from __future__ import annotations

from collections.abc import Callable

from ghapp.remediation.decision import is_as_planned
from ghapp.runners.evidence import Evidence, Fold


def if_known(change: Callable[[Evidence], Evidence]) -> Fold:
    """Changes a record only if it exists; an unknown runner stays unknown."""
    return lambda evidence: None if evidence is None else change(evidence)


def as_planned(planned: Evidence, change: Callable[[Evidence], Evidence]) -> Fold:
    """Changes a record only if it is still as it was planned for."""
    return lambda found: change(found) if found is not None and is_as_planned(planned, found) else found
