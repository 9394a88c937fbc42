"""The API server's discovery: its version, its groups, the resources in each."""

from __future__ import annotations

from collections.abc import Collection

from ghapp.sandbox.cluster.kinds import ObjectKind
from ghapp.sandbox.cluster.objects import Obj
from ghapp.sandbox.cluster.reviews import GROUP, KIND, PLURAL

VERSION: Obj = {
    "major": "1",
    "minor": "34",
    "emulationMajor": "1",
    "emulationMinor": "34",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "33",
    "gitVersion": "v1.34.1",
    "gitCommit": "93248f9ae092f571eb870b7664c534bfc7d00f03",
    "gitTreeState": "clean",
    "buildDate": "2025-09-09T19:37:48Z",
    "goVersion": "go1.24.6",
    "compiler": "gc",
    "platform": "linux/amd64",
}
_VERBS = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]


def document(path: str, kinds: Collection[ObjectKind]) -> Obj | None:
    """Returns the document at a discovery path; None when there is none."""
    parts = [part for part in path.split("/") if part]
    if parts == ["api"]:
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
    groups = sorted({(kind.group, kind.version) for kind in kinds if kind.group} | {(GROUP, "v1")})
    if parts == ["apis"]:
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(*group) for group in groups]}
    if parts == ["api", "v1"]:
        return _resources("", "v1", kinds)
    if len(parts) == 2 and parts[0] == "apis":  # noqa: PLR2004 - /apis/group
        for group, version in groups:
            if group == parts[1]:
                return {"kind": "APIGroup", "apiVersion": "v1"} | _group(group, version)
    if len(parts) == 3 and parts[0] == "apis" and (parts[1], parts[2]) in groups:  # noqa: PLR2004
        return _resources(parts[1], parts[2], kinds)
    return None


def _group(group: str, version: str) -> Obj:
    offered = {"groupVersion": f"{group}/{version}", "version": version}
    return {"name": group, "versions": [offered], "preferredVersion": offered}


def _resources(group: str, version: str, kinds: Collection[ObjectKind]) -> Obj:
    listed: list[Obj] = []
    for kind in sorted((kind for kind in kinds if (kind.group, kind.version) == (group, version)), key=_plural):
        shown: Obj = {"singularName": kind.kind.lower(), "namespaced": kind.namespaced, "kind": kind.kind}
        listed.append({"name": kind.plural} | shown | {"verbs": _VERBS})
        if kind.has_status:
            listed.append({"name": f"{kind.plural}/status"} | shown | {"verbs": ["get", "patch", "update"]})
        listed += [{"name": f"{kind.plural}/{part}"} | shown | {"verbs": ["get"]} for part in kind.subresources]
    if group == GROUP:
        listed.append({"name": PLURAL, "singularName": "", "namespaced": False, "kind": KIND, "verbs": ["create"]})
    named = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": named, "resources": listed}


def _plural(kind: ObjectKind) -> str:
    return kind.plural
