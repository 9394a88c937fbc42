"""Authorization: users with rules, as in RBAC; whatever no rule allows is forbidden.

`SelfSubjectAccessReview` is answered by these rules, `SelfSubjectReview` by the user of the request.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from ghapp.sandbox.cluster.requests import ParsedRequest
from ghapp.sandbox.cluster.status import StatusCause, bad_request, forbidden, forbidden_path, invalid_as
from ghapp.sandbox.cluster.store import Obj

ANONYMOUS = "system:anonymous"
PUBLIC_PATHS = ("/healthz", "/livez", "/readyz", "/version")
DISCOVERY_PATHS = ("/api", "/apis")

ACCESS_REVIEW = "SelfSubjectAccessReview"
AUTHORIZATION_GROUP = "authorization.k8s.io"
ACCESS_REVIEWS = "selfsubjectaccessreviews"
AUTHENTICATION_GROUP = "authentication.k8s.io"
SUBJECT_REVIEWS = "selfsubjectreviews"
SELF_REVIEWS = {(AUTHORIZATION_GROUP, ACCESS_REVIEWS), (AUTHENTICATION_GROUP, SUBJECT_REVIEWS)}
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


def self_subject_review(user: User) -> Obj:
    """Returns the user of a request, as the API server knows it."""
    return {
        "kind": "SelfSubjectReview",
        "apiVersion": f"{AUTHENTICATION_GROUP}/v1",
        "metadata": {},
        "status": {"userInfo": {"username": user.name, "groups": ["system:authenticated"]}},
    }


def review(user: User, body: Any) -> Obj:
    """Returns the review with its status; StatusError when it contains no question."""
    if not isinstance(body, dict) or body.get("kind", ACCESS_REVIEW) != ACCESS_REVIEW:
        raise bad_request(f"the object provided is unrecognized (must be of type {ACCESS_REVIEW})")
    spec = body.get("spec") or {}
    about, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if isinstance(about, dict) == isinstance(path, dict):
        why = "Invalid value: exactly one of nonResourceAttributes or resourceAttributes must be specified"
        raise invalid_as(
            ACCESS_REVIEW, AUTHORIZATION_GROUP, "", [StatusCause("FieldValueInvalid", why, "spec.resourceAttributes")]
        )
    status: Obj = {"allowed": False}
    if isinstance(about, dict):
        rule = user.rule_for(
            ParsedRequest(
                about.get("verb", ""),
                about.get("group", ""),
                about.get("version", ""),
                about.get("resource", ""),
                about.get("namespace", ""),
                about.get("name", ""),
                about.get("subresource", ""),
            )
        )
        if rule is not None:
            status = {"allowed": True, "reason": f"RBAC: allowed by {rule.why}" if rule.why else ""}
    elif isinstance(path, dict):
        allowed = any(rule.allows_path(path.get("verb", ""), path.get("path", "")) for rule in user.rules)
        status = {"allowed": allowed}
    return {
        "kind": ACCESS_REVIEW,
        "apiVersion": f"{AUTHORIZATION_GROUP}/v1",
        "metadata": {},
        "spec": spec,
        "status": {key: value for key, value in status.items() if value != ""},
    }
