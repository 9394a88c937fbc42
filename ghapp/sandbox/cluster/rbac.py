"""Who may do what: users with rules, as RBAC has them; whatever no rule allows is forbidden."""

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
    """What is allowed; `*` in the first three is anything.

    Attributes:
        resources: plurals, with the subresource where one is meant: `pods/log`.
        namespaces: where; None is everywhere, and then also at the cluster scope.
        names: only these objects; empty is any.
        paths: non-resource URLs, with `*` at the end for a prefix.
        why: the binding that gave it, for reviews.
    """

    verbs: Collection[str]
    api_groups: Collection[str] = ("",)
    resources: Collection[str] = ()
    namespaces: Collection[str] | None = None
    names: Collection[str] = ()
    paths: Collection[str] = ()
    why: str = ""

    def allows(self, asked: ParsedRequest) -> bool:
        """Whether it allows this."""
        return (
            _within(asked.verb, self.verbs)
            and _within(asked.group, self.api_groups)
            and self._covers(asked)
            and (self.namespaces is None or (asked.namespace != "" and asked.namespace in self.namespaces))
            and (not self.names or asked.name in self.names)
        )

    def allows_path(self, verb: str, path: str) -> bool:
        """Whether it allows this path, which is of no resource."""
        if self.namespaces is not None or not _within(verb, self.verbs):
            return False
        return any(path == said or (said.endswith("*") and path.startswith(said[:-1])) for said in self.paths)

    def _covers(self, asked: ParsedRequest) -> bool:
        everywhere = f"*/{asked.subresource}" if asked.subresource else "*"
        return any(said in (asked.full_resource, everywhere, "*") for said in self.resources)


ANYTHING = RbacRule(("*",), ("*",), ("*",), paths=("*",))


@dataclass(slots=True)
class User:
    """A user, and the token by which it is known; None when it has none that is good."""

    name: str
    rules: tuple[RbacRule, ...] = ()
    token: str | None = None
    groups: tuple[str, ...] = field(default=("system:authenticated",))

    def rule_for(self, asked: ParsedRequest) -> RbacRule | None:
        """The rule that allows this; None when none does."""
        return next((rule for rule in self.rules if rule.allows(asked)), None)


def check(user: User, asked: ParsedRequest) -> None:
    """Refusal (403) in the real one's words, when the user may not."""
    if user.rule_for(asked) is None and not _is_own_review(user, asked):
        where = f'in the namespace "{asked.namespace}"' if asked.namespace else "at the cluster scope"
        why = (
            f'User "{user.name}" cannot {asked.verb} resource "{asked.full_resource}"'
            f' in API group "{asked.group}" {where}'
        )
        raise forbidden(asked.group, asked.resource, asked.name, why)


def check_path(user: User, verb: str, path: str) -> None:
    """The same for a path that is of no resource."""
    if path in PUBLIC_PATHS or path.startswith(tuple(f"{public}/" for public in PUBLIC_PATHS)):
        return
    known = user.name != ANONYMOUS
    if known and verb == "get" and path.startswith(DISCOVERY_PATHS):
        return
    if not any(rule.allows_path(verb, path) for rule in user.rules):
        raise forbidden_path(f'User "{user.name}" cannot {verb} path "{path}"')


def _is_own_review(user: User, asked: ParsedRequest) -> bool:
    """Everybody who is known may ask what they may do, and who they are."""
    known = user.name != ANONYMOUS
    return known and asked.verb == "create" and (asked.group, asked.resource) in SELF_REVIEWS


def _within(value: str, allowed: Iterable[str]) -> bool:
    return any(said in (value, "*") for said in allowed)
