"""Parses reviews of our own permissions and account, and the API server's version. No I/O."""

from __future__ import annotations

import msgspec

from ghapp.cluster.wire.envelope import NonEmpty, read


class _Decision(msgspec.Struct):
    allowed: bool


class _Review(msgspec.Struct):
    status: _Decision


class _Version(msgspec.Struct, rename="camel"):
    git_version: NonEmpty


class _User(msgspec.Struct):
    username: NonEmpty = ""


class _Who(msgspec.Struct, rename="camel"):
    user_info: _User


class _SelfReview(msgspec.Struct):
    status: _Who


_self_review = msgspec.json.Decoder(_SelfReview)
_review = msgspec.json.Decoder(_Review)
_version = msgspec.json.Decoder(_Version)


def is_allowed(body: bytes) -> bool:
    """Parses an answered `SelfSubjectAccessReview`."""
    return read(_review, body).status.allowed


def username(body: bytes) -> str:
    """Parses a `SelfSubjectReview`; returns our user name, as `system:serviceaccount:NAMESPACE:NAME`."""
    return read(_self_review, body).status.user_info.username


def git_version(body: bytes) -> str:
    """Parses `GET /version`."""
    return read(_version, body).git_version
