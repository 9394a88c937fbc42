"""`SelfSubjectAccessReview`, by the rules of authorization, and `SelfSubjectReview`."""

from __future__ import annotations

from typing import Any

from ghapp.sandbox.cluster.objects import Obj
from ghapp.sandbox.cluster.rbac import User
from ghapp.sandbox.cluster.requests import ParsedRequest
from ghapp.sandbox.cluster.status import StatusCause, bad_request, invalid_as

KIND = "SelfSubjectAccessReview"
GROUP = "authorization.k8s.io"
PLURAL = "selfsubjectaccessreviews"

WHO_GROUP = "authentication.k8s.io"
WHO_PLURAL = "selfsubjectreviews"


def self_subject_review(user: User) -> Obj:
    """Returns the user of a request, as the API server knows it."""
    return {
        "kind": "SelfSubjectReview",
        "apiVersion": f"{WHO_GROUP}/v1",
        "metadata": {},
        "status": {"userInfo": {"username": user.name, "groups": ["system:authenticated"]}},
    }


def review(user: User, body: Any) -> Obj:
    """Returns the review with its status; StatusError when it contains no question."""
    if not isinstance(body, dict) or body.get("kind", KIND) != KIND:
        raise bad_request(f"the object provided is unrecognized (must be of type {KIND})")
    spec = body.get("spec") or {}
    about, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if isinstance(about, dict) == isinstance(path, dict):
        why = "Invalid value: exactly one of nonResourceAttributes or resourceAttributes must be specified"
        raise invalid_as(KIND, GROUP, "", [StatusCause("FieldValueInvalid", why, "spec.resourceAttributes")])
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
        "kind": KIND,
        "apiVersion": f"{GROUP}/v1",
        "metadata": {},
        "spec": spec,
        "status": {key: value for key, value in status.items() if value != ""},
    }
