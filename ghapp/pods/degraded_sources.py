"""Names of cluster sources that cannot be read, and why. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

RUNNER_LINES, HOST_LINES = "the log store, logs of runners", "the log store, journals of nodes"
"""Each may be refused alone, as by a tenant's rights."""


class DegradedSource(NamedTuple):
    """A source that cannot be read, and why. The text stays constant while the reason does."""

    place: str
    why: str


def pods_source(namespace: str) -> str:
    """Returns the name of the view of a namespace's pods."""
    return f"pods in {namespace}"


def deaths_source(namespace: str) -> str:
    """Returns the name of the deaths of pods that come and end between two lists: a watch alone shows these."""
    return f"deaths in {namespace} between two lists"


def objects_source(namespace: str) -> str:
    """Returns the name of the view of ARC's objects in a namespace."""
    return f"ephemeralrunners in {namespace}"


def changes_source(namespace: str) -> str:
    """Returns the name of what happens to ARC's objects between two lists: a watch alone shows that."""
    return f"ephemeralrunners in {namespace} between two lists"


def logs_source(namespace: str) -> str:
    """Returns the name of the logs of a namespace's runners."""
    return f"pods/log in {namespace}"


def leaks_source(namespace: str) -> str:
    """Returns the name of a namespace's pods as the reaper lists them."""
    return f"leaks in {namespace}"


SOURCES = (pods_source, deaths_source, objects_source, changes_source, logs_source, leaks_source)
"""In each namespace."""


def sources_of(namespaces: Iterable[str], *, has_log_store: bool) -> list[str]:
    """Returns all sources that may be degraded for pools in these namespaces."""
    found = [place(name) for name in namespaces for place in SOURCES]
    return [*found, RUNNER_LINES, HOST_LINES] if has_log_store else found
