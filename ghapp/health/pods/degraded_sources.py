"""Names of cluster sources that cannot be read, and why. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

LOG_STORE = "the log store"


class DegradedSource(NamedTuple):
    """A source that cannot be read, and why. The text stays constant while the reason does."""

    place: str
    why: str


def pods_source(namespace: str) -> str:
    """Returns the name of the view of a namespace's pods."""
    return f"pods in {namespace}"


def objects_source(namespace: str) -> str:
    """Returns the name of the view of ARC's objects in a namespace."""
    return f"ephemeralrunners in {namespace}"


def logs_source(namespace: str) -> str:
    """Returns the name of the logs of a namespace's runners."""
    return f"pods/log in {namespace}"


def sources_of(namespaces: Iterable[str], *, has_log_store: bool) -> list[str]:
    """Returns all sources that may be degraded for pools in these namespaces."""
    found = [place(name) for name in namespaces for place in (pods_source, objects_source, logs_source)]
    return [*found, LOG_STORE] if has_log_store else found
