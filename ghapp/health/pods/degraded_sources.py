"""What keeps the cluster side from being seen, for people: where, and why. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

LOG_STORE = "the log store"


class DegradedSource(NamedTuple):
    """Something that cannot be seen, and why, in words that do not change while the reason does not."""

    place: str
    why: str


def pods_source(namespace: str) -> str:
    """How the view of a namespace's pods is called."""
    return f"pods in {namespace}"


def objects_source(namespace: str) -> str:
    """How the view of ARC's objects in a namespace is called."""
    return f"ephemeralrunners in {namespace}"


def logs_source(namespace: str) -> str:
    """How the last lines of a namespace's runners are called."""
    return f"pods/log in {namespace}"


def sources_of(namespaces: Iterable[str], *, has_log_store: bool) -> list[str]:
    """Every place that may be hindered where pools have these namespaces."""
    found = [place(name) for name in namespaces for place in (pods_source, objects_source, logs_source)]
    return [*found, LOG_STORE] if has_log_store else found
