"""Folds that jobs make of the pure ones."""

from __future__ import annotations

from collections.abc import Callable

from ghapp.health.evidence import Evidence, Fold


def if_known(change: Callable[[Evidence], Evidence]) -> Fold:
    """The change of a record that must be there; whom nobody knows any more stays unknown."""
    return lambda evidence: None if evidence is None else change(evidence)
