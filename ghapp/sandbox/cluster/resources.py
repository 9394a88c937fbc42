"""Answers to requests for resources, once it is known who asks and that they may."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from ghapp.sandbox.cluster import deletion, lists, patch, reviews, selectors, writes
from ghapp.sandbox.cluster.cluster import SimulatedCluster
from ghapp.sandbox.cluster.kinds import PODS, ObjectKind, find
from ghapp.sandbox.cluster.objects import Key, Obj, Stored
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

JSON = "application/json"
TEXT = "text/plain"


class Said(NamedTuple):
    """What came with a request."""

    query: dict[str, str]
    body: bytes
    media_type: str


class ResourceResponse(NamedTuple):
    """What goes back."""

    body: bytes
    code: int = 200
    media_type: str = JSON


def kind_of(cluster: SimulatedCluster, asked: ParsedRequest) -> ObjectKind:
    """The kind that is meant; Refusal 404 when there is none, or its CRD is not installed, 405 for a wrong place."""
    kind = find(asked.group, asked.version, asked.resource)
    if kind is None or kind not in cluster.installed:
        raise unknown_resource()
    known = (*kind.subresources, *(["status"] if kind.has_status else []))
    if asked.subresource and asked.subresource not in known:
        raise unknown_resource()
    if not asked.verb or (asked.verb in ("update", "patch", "delete") and not asked.name):
        raise method_not_allowed()
    if kind.namespaced and not asked.namespace and asked.verb not in ("list", "watch"):
        # Only lists and watches are of all namespaces; any other path without one leads nowhere.
        raise method_not_allowed() if not asked.name or asked.verb == "deletecollection" else unknown_resource()
    return kind


def answer(cluster: SimulatedCluster, user: User, asked: ParsedRequest, said: Said) -> ResourceResponse:
    """Does what is asked, under the cluster's lock, and lets follow what follows; Refusal when it cannot be."""
    if (asked.group, asked.version, asked.resource) == (reviews.GROUP, "v1", reviews.PLURAL):
        if asked.verb != "create":
            raise method_not_allowed()
        return _encoded(reviews.review(user, _decoded(said)), 201)
    if (asked.group, asked.version, asked.resource) == (reviews.WHO_GROUP, "v1", reviews.WHO_PLURAL):
        if asked.verb != "create":
            raise method_not_allowed()
        return _encoded(reviews.who(user), 201)
    with cluster.lock:
        cluster.settle()
        kind = kind_of(cluster, asked)
        done = _answer(cluster, kind, asked, said)
        if asked.verb not in ("get", "list"):
            cluster.settle()
        return done


def selector(kind: ObjectKind, asked: ParsedRequest, query: Mapping[str, str]) -> selectors.Selector:
    """Which objects a list or a watch means."""
    namespace = asked.namespace if kind.namespaced else ""
    return selectors.parse(kind, namespace, query.get("labelSelector", ""), query.get("fieldSelector", ""))


def _answer(cluster: SimulatedCluster, kind: ObjectKind, asked: ParsedRequest, said: Said) -> ResourceResponse:
    store, now = cluster.store, cluster.clock()
    key = Key(asked.namespace if kind.namespaced else "", asked.name)
    where = writes.Write(kind, key, now, asked.subresource, bool(said.query.get("dryRun")))
    if asked.verb == "list":
        return ResourceResponse(lists.page(store, kind, selector(kind, asked, said.query), lists.options(said.query)))
    if asked.verb == "deletecollection":
        return _delete_many(cluster, kind, asked, said)
    if asked.verb == "create":
        if asked.name:
            raise method_not_allowed()
        return ResourceResponse(writes.create(store, where, _decoded(said)).encoded, 201)
    if asked.subresource == "log":
        return _log(cluster, kind, key, asked, said)
    if asked.verb == "get":
        return ResourceResponse(_stored(cluster, kind, key).encoded)
    if asked.verb == "delete":
        if asked.subresource:
            raise method_not_allowed()
        wanted = deletion.read_options(said.body, said.query)
        outcome = deletion.delete(store, _stored(cluster, kind, key), wanted, now)
        return _deleted(kind, outcome)
    if asked.verb == "update":
        return ResourceResponse(writes.replace(store, where, _decoded(said)).stored.encoded)
    if said.media_type not in patch.ACCEPTED:
        raise unsupported_media(patch.ACCEPTED)
    return ResourceResponse(writes.patch(store, where, _json(said.body), said.media_type).stored.encoded)


def _delete_many(cluster: SimulatedCluster, kind: ObjectKind, asked: ParsedRequest, said: Said) -> ResourceResponse:
    meant = selector(kind, asked, said.query)
    wanted = deletion.read_options(said.body, said.query)
    found = [stored for stored in cluster.store.all(kind).values() if meant.matches(stored)]
    found.sort(key=lambda stored: stored.key.path)
    gone = [deletion.delete(cluster.store, stored, wanted, cluster.clock()).stored for stored in found]
    return ResourceResponse(lists.document(kind, {"resourceVersion": str(cluster.store.version)}, gone))


def _log(cluster: SimulatedCluster, kind: ObjectKind, key: Key, asked: ParsedRequest, said: Said) -> ResourceResponse:
    if kind is not PODS or asked.verb != "get":
        raise method_not_allowed()
    pod = _stored(cluster, kind, key).value
    return ResourceResponse(cluster.logs.read(pod, said.query, cluster.clock()).encode(), 200, TEXT)


def _deleted(kind: ObjectKind, outcome: deletion.DeletionOutcome) -> ResourceResponse:
    """The object where it is still there, or its kind answers so; else that it is gone."""
    if kind.returns_deleted or not outcome.gone:
        return ResourceResponse(outcome.stored.encoded)
    meta = outcome.stored.value["metadata"]
    return _encoded(succeeded(kind, meta["name"], meta["uid"]), 200)


def _stored(cluster: SimulatedCluster, kind: ObjectKind, key: Key) -> Stored:
    found = cluster.store.get(kind, key)
    if found is None:
        raise not_found(kind, key.name)
    return found


def _decoded(said: Said) -> Any:
    """The body of a write; Refusal 415 when it is no JSON by its type, 400 when it is none at all."""
    if said.media_type not in ("", JSON):
        raise unsupported_media([JSON, "application/yaml", "application/vnd.kubernetes.protobuf"])
    return _json(said.body)


def _json(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise bad_request(f"couldn't get version/kind; json parse error: {error}") from None


def _encoded(document: Obj, code: int) -> ResourceResponse:
    return ResourceResponse(msgspec.json.encode(document), code)
