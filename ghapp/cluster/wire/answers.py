"""Answers that are about ourselves and the API server: may we, and which version is it. No I/O."""

from __future__ import annotations

import msgspec

from ghapp.cluster.wire.envelope import Word, read


class _Decision(msgspec.Struct):
    allowed: bool


class _Review(msgspec.Struct):
    status: _Decision


class _Version(msgspec.Struct, rename="camel"):
    git_version: Word


_review = msgspec.json.Decoder(_Review)
_version = msgspec.json.Decoder(_Version)


def is_allowed(body: bytes) -> bool:
    """A `SelfSubjectAccessReview` that was answered."""
    return read(_review, body).status.allowed


def git_version(body: bytes) -> str:
    """`GET /version`."""
    return read(_version, body).git_version
