"""What a call needs that was refused, in words. Pure.

GitHub names the permission in `x-accepted-github-permissions`, for fine-grained tokens, and lists the scopes that a
classic token has in `x-oauth-scopes`. What GitHub does not name is here as its documentation has it.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from typing import NamedTuple

from ghapp.installations.installation import accepted_text
from ghapp.installations.scope import Scope, ScopeKind


class _Need(NamedTuple):
    """A scope of classic tokens, a permission of fine-grained tokens, and who has the right at all."""

    scope: str
    permission: str
    role: str


class Right(Enum):
    """What a scan reads, by the right that it takes."""

    ORGANIZATION_RUNNERS = _Need("admin:org", "Self-hosted runners: read", "an owner of {owner}")
    REPOSITORY_RUNNERS = _Need("repo", "Administration: read", "an admin of {name}")
    ENTERPRISE_RUNNERS = _Need("manage_runners:enterprise", "", "an owner of {name}")
    JOBS = _Need("repo", "Actions: read", "a person who may read {name}")
    REPOSITORIES = _Need("repo", "Metadata: read", "a member of {owner}")


RUNNERS = {
    ScopeKind.ORGANIZATION: Right.ORGANIZATION_RUNNERS,
    ScopeKind.REPOSITORY: Right.REPOSITORY_RUNNERS,
    ScopeKind.ENTERPRISE: Right.ENTERPRISE_RUNNERS,
}
"""The right to list runners, by the kind of scope."""

_INCLUDED = {"manage_runners:org": ("admin:org",), "manage_runners:enterprise": ("admin:enterprise",)}
"""Scopes that others include."""


def has_scope(scopes: Collection[str] | None, right: Right) -> bool:
    """True if a classic token has the scope that a right takes; False also for other tokens."""
    wanted = (right.value.scope, *_INCLUDED.get(right.value.scope, ()))
    return scopes is not None and any(each in scopes for each in wanted)


def needed(right: Right, scope: Scope, scopes: Collection[str] | None, accepted: str = "") -> str:
    """Returns what a token needs for a right, in words that follow `a token`.

    Args:
        right: the right.
        scope: where.
        scopes: those of a classic token; None for another token, or if it is not known what it is.
        accepted: GitHub's `x-accepted-github-permissions`; empty if it has none.
    """
    need = right.value
    if has_scope(scopes, right):
        return f"of {need.role.format(owner=scope.owner, name=scope.name)}"
    if scopes is not None or not need.permission:
        kind = "" if scopes is not None else " (a classic one: GitHub shows this to no other token)"
        return f"with the scope {need.scope}{kind}"
    if accepted:
        return f"with the permission {accepted_text(accepted)}"
    return f"with the permission {need.permission}, or a classic one with the scope {need.scope}"
