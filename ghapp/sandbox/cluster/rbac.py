"""Authorization: users with rules, as in RBAC; whatever no rule allows is forbidden."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from ghapp.sandbox.cluster.requests import ParsedRequest
from ghapp.sandbox.cluster.status import forbidden, forbidden_path

ANONYMOUS = "system:anonymous"
PUBLIC_PATHS = ("/healthz", "/livez", "/readyz", "/version")
DISCOVERY_PATHS = ("/api", "/apis")
SELF_REVIEWS = {
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authentication.k8s.io", "selfsubjectreviews"),
}
"""Group and plural."""


@dataclass(frozen=True, slots=True)
class RbacRule:
    """What is allowed; `*` in the first three matches anything.

    Attributes:
        resources: plurals, with the subresource where one is meant: `pods/log`.
        namespaces: None is everywhere, including the cluster scope.
        names: only these objects; empty is any.
        paths: non-resource URLs, with `*` at the end for a prefix.
        why: the binding of this rule, for reviews.
    """

    verbs: Collection[str]
    api_groups: Collection[str] = ("",)
    resources: Collection[str] = ()
    namespaces: Collection[str] | None = None
    names: Collection[str] = ()
    paths: Collection[str] = ()
    why: str = ""

    def allows(self, asked: ParsedRequest) -> bool:
        """True if it allows this request."""
        return (
            _within(asked.verb, self.verbs)
            and _within(asked.group, self.api_groups)
            and self._covers(asked)
            and (self.namespaces is None or (asked.namespace != "" and asked.namespace in self.namespaces))
            and (not self.names or asked.name in self.names)
        )

    def allows_path(self, verb: str, path: str) -> bool:
        """True if it allows this non-resource path."""
        if self.namespaces is not None or not _within(verb, self.verbs):
            return False
        return any(
            path == pattern or (pattern.endswith("*") and path.startswith(pattern[:-1])) for pattern in self.paths
        )

    def _covers(self, asked: ParsedRequest) -> bool:
        everywhere = f"*/{asked.subresource}" if asked.subresource else "*"
        return any(pattern in (asked.full_resource, everywhere, "*") for pattern in self.resources)


ANYTHING = RbacRule(("*",), ("*",), ("*",), paths=("*",))


@dataclass(slots=True)
class User:
    """A user with its token; None when it has no valid one."""

    name: str
    rules: tuple[RbacRule, ...] = ()
    token: str | None = None
    groups: tuple[str, ...] = field(default=("system:authenticated",))

    def rule_for(self, asked: ParsedRequest) -> RbacRule | None:
        """Returns the rule that allows this request; None when no rule does."""
        return next((rule for rule in self.rules if rule.allows(asked)), None)


def check(user: User, asked: ParsedRequest) -> None:
    """Raises a StatusError (403) with the real server's message when the user may not do this."""
    if user.rule_for(asked) is None and not _is_own_review(user, asked):
        where = f'in the namespace "{asked.namespace}"' if asked.namespace else "at the cluster scope"
        why = (
            f'User "{user.name}" cannot {asked.verb} resource "{asked.full_resource}"'
            f' in API group "{asked.group}" {where}'
        )
        raise forbidden(asked.group, asked.resource, asked.name, why)


def check_path(user: User, verb: str, path: str) -> None:
    """The same for a non-resource path."""
    if path in PUBLIC_PATHS or path.startswith(tuple(f"{public}/" for public in PUBLIC_PATHS)):
        return
    known = user.name != ANONYMOUS
    if known and verb == "get" and path.startswith(DISCOVERY_PATHS):
        return
    if not any(rule.allows_path(verb, path) for rule in user.rules):
        raise forbidden_path(f'User "{user.name}" cannot {verb} path "{path}"')


def _is_own_review(user: User, asked: ParsedRequest) -> bool:
    """True for a user's own review: every authenticated user may send one."""
    known = user.name != ANONYMOUS
    return known and asked.verb == "create" and (asked.group, asked.resource) in SELF_REVIEWS


def _within(value: str, allowed: Iterable[str]) -> bool:
    return any(pattern in (value, "*") for pattern in allowed)
