"""Reads users from manifests: Roles, ClusterRoles, and their bindings."""

from __future__ import annotations

from collections.abc import Iterable

from ghapp.sandbox.cluster.rbac import RbacRule
from ghapp.sandbox.cluster.store import Obj

_ROLES = ("Role", "ClusterRole")
_BINDINGS = ("RoleBinding", "ClusterRoleBinding")


def users_of(documents: Iterable[Obj]) -> dict[str, list[RbacRule]]:
    """Returns the rules of each bound user; ValueError when a binding names a role that does not exist."""
    found = [document for document in documents if document]
    roles = {_name_of(role): role for role in found if role.get("kind") in _ROLES}
    users: dict[str, list[RbacRule]] = {}
    for binding in found:
        if binding.get("kind") not in _BINDINGS:
            continue
        namespace = binding["metadata"].get("namespace", "") if binding["kind"] == "RoleBinding" else None
        reference = binding["roleRef"]
        named = (reference["kind"], (namespace or "") if reference["kind"] == "Role" else "", reference["name"])
        if named not in roles:
            raise ValueError(
                f"{_label(binding)} binds the {reference['kind']} {reference['name']!r}, which is not given"
            )
        rules = rules_of(roles[named], namespace, _label(binding))
        for subject in binding.get("subjects") or ():
            users.setdefault(_user(subject, namespace), []).extend(rules)
    return users


def rules_of(role: Obj, namespace: str | None, why: str = "") -> list[RbacRule]:
    """Returns the rules of one Role or ClusterRole, as bound in a namespace; None is everywhere."""
    where = None if namespace is None else (namespace,)
    return [
        RbacRule(
            tuple(rule.get("verbs") or ()),
            tuple(rule.get("apiGroups") or ()),
            tuple(rule.get("resources") or ()),
            where,
            tuple(rule.get("resourceNames") or ()),
            tuple(rule.get("nonResourceURLs") or ()),
            why,
        )
        for rule in role.get("rules") or ()
    ]


def _name_of(role: Obj) -> tuple[str, str, str]:
    namespace = role["metadata"].get("namespace", "") if role["kind"] == "Role" else ""
    return role["kind"], namespace, role["metadata"]["name"]


def _label(binding: Obj) -> str:
    meta = binding["metadata"]
    where = f"/{meta['namespace']}" if meta.get("namespace") else ""
    return f'{binding["kind"]} "{meta["name"]}{where}"'


def _user(subject: Obj, namespace: str | None) -> str:
    if subject["kind"] == "ServiceAccount":
        return f"system:serviceaccount:{subject.get('namespace') or namespace or ''}:{subject['name']}"
    return str(subject["name"])
