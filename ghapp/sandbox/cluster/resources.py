"""Answers requests for resources, after authentication and authorization."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from ghapp.sandbox.cluster import deletion, lists, patch, rbac, writes
from ghapp.sandbox.cluster.cluster import SimulatedCluster
from ghapp.sandbox.cluster.kinds import PODS, ObjectKind, find
from ghapp.sandbox.cluster.rbac import User
from ghapp.sandbox.cluster.requests import ParsedRequest
from ghapp.sandbox.cluster.status import (
    bad_request,
    method_not_allowed,
    not_found,
    succeeded,
    unknown_resource,
    unsupported_media,
)
from ghapp.sandbox.cluster.store import Key, Obj, Stored

JSON = "application/json"
TEXT = "text/plain"


class RequestContent(NamedTuple):
    """The content of a request."""

    query: dict[str, str]
    body: bytes
    media_type: str


class ResourceResponse(NamedTuple):
    """The content of a response."""

    body: bytes
    code: int = 200
    media_type: str = JSON


def kind_of(cluster: SimulatedCluster, asked: ParsedRequest) -> ObjectKind:
    """Returns the requested kind; StatusError 404 for one that is unknown or not installed, 405 for a wrong path."""
    kind = find(asked.group, asked.version, asked.resource)
    if kind is None or kind not in cluster.installed:
        raise unknown_resource()
    known = (*kind.subresources, *(["status"] if kind.has_status else []))
    if asked.subresource and asked.subresource not in known:
        raise unknown_resource()
    if not asked.verb or (asked.verb in ("update", "patch", "delete") and not asked.name):
        raise method_not_allowed()
    if kind.namespaced and not asked.namespace and asked.verb not in ("list", "watch"):
        # Only lists and watches cover all namespaces; any other path without a namespace is unknown.
        raise method_not_allowed() if not asked.name or asked.verb == "deletecollection" else unknown_resource()
    return kind


def answer(cluster: SimulatedCluster, user: User, asked: ParsedRequest, content: RequestContent) -> ResourceResponse:
    """Executes a request under the cluster's lock, and applies its effects; StatusError when it is invalid."""
    if (asked.group, asked.version, asked.resource) == (rbac.AUTHORIZATION_GROUP, "v1", rbac.ACCESS_REVIEWS):
        if asked.verb != "create":
            raise method_not_allowed()
        return _encoded(rbac.review(user, _decoded(content)), 201)
    if (asked.group, asked.version, asked.resource) == (rbac.AUTHENTICATION_GROUP, "v1", rbac.SUBJECT_REVIEWS):
        if asked.verb != "create":
            raise method_not_allowed()
        return _encoded(rbac.self_subject_review(user), 201)
    with cluster.lock:
        cluster.settle()
        kind = kind_of(cluster, asked)
        done = _answer(cluster, kind, asked, content)
        if asked.verb not in ("get", "list"):
            cluster.settle()
        return done


def selector(kind: ObjectKind, asked: ParsedRequest, query: Mapping[str, str]) -> lists.Selector:
    """Returns the selector of a list or a watch."""
    namespace = asked.namespace if kind.namespaced else ""
    return lists.parse(kind, namespace, query.get("labelSelector", ""), query.get("fieldSelector", ""))


def _answer(
    cluster: SimulatedCluster, kind: ObjectKind, asked: ParsedRequest, content: RequestContent
) -> ResourceResponse:
    store, now = cluster.store, cluster.clock()
    key = Key(asked.namespace if kind.namespaced else "", asked.name)
    where = writes.Write(kind, key, now, asked.subresource, bool(content.query.get("dryRun")))
    if asked.verb == "list":
        return ResourceResponse(
            lists.page(store, kind, selector(kind, asked, content.query), lists.options(content.query))
        )
    if asked.verb == "deletecollection":
        return _delete_many(cluster, kind, asked, content)
    if asked.verb == "create":
        if asked.name:
            raise method_not_allowed()
        return ResourceResponse(writes.create(store, where, _decoded(content)).encoded, 201)
    if asked.subresource == "log":
        return _log(cluster, kind, key, asked, content)
    if asked.verb == "get":
        return ResourceResponse(_stored(cluster, kind, key).encoded)
    if asked.verb == "delete":
        if asked.subresource:
            raise method_not_allowed()
        wanted = deletion.read_options(content.body, content.query)
        outcome = deletion.delete(store, _stored(cluster, kind, key), wanted, now)
        return _deleted(kind, outcome)
    if asked.verb == "update":
        raise method_not_allowed()
    if content.media_type not in patch.ACCEPTED:
        raise unsupported_media(patch.ACCEPTED)
    return ResourceResponse(writes.patch(store, where, _json(content.body), content.media_type).stored.encoded)


def _delete_many(
    cluster: SimulatedCluster, kind: ObjectKind, asked: ParsedRequest, content: RequestContent
) -> ResourceResponse:
    meant = selector(kind, asked, content.query)
    wanted = deletion.read_options(content.body, content.query)
    found = [stored for stored in cluster.store.all(kind).values() if meant.matches(stored)]
    found.sort(key=lambda stored: stored.key.path)
    deleted = [deletion.delete(cluster.store, stored, wanted, cluster.clock()).stored for stored in found]
    return ResourceResponse(lists.document(kind, {"resourceVersion": str(cluster.store.version)}, deleted))


def _log(
    cluster: SimulatedCluster, kind: ObjectKind, key: Key, asked: ParsedRequest, content: RequestContent
) -> ResourceResponse:
    if kind is not PODS or asked.verb != "get":
        raise method_not_allowed()
    pod = _stored(cluster, kind, key).value
    return ResourceResponse(cluster.logs.read(pod, content.query, cluster.clock()).encode(), 200, TEXT)


def _deleted(kind: ObjectKind, outcome: deletion.DeletionOutcome) -> ResourceResponse:
    """Returns the object if it still exists or its kind answers so, else a `Status`."""
    if kind.returns_deleted or not outcome.is_deleted:
        return ResourceResponse(outcome.stored.encoded)
    meta = outcome.stored.value["metadata"]
    return _encoded(succeeded(kind, meta["name"], meta["uid"]), 200)


def _stored(cluster: SimulatedCluster, kind: ObjectKind, key: Key) -> Stored:
    found = cluster.store.get(kind, key)
    if found is None:
        raise not_found(kind, key.name)
    return found


def _decoded(content: RequestContent) -> Any:
    """Returns the body of a write; StatusError 415 for another type than JSON, 400 for invalid JSON."""
    if content.media_type not in ("", JSON):
        raise unsupported_media([JSON, "application/yaml", "application/vnd.kubernetes.protobuf"])
    return _json(content.body)


def _json(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise bad_request(f"couldn't get version/kind; json parse error: {error}") from None


def _encoded(document: Obj, code: int) -> ResourceResponse:
    return ResourceResponse(msgspec.json.encode(document), code)
