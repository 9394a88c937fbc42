"""The answers to refused requests: a `Status` object, with the messages of the real API server."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import NamedTuple

from ghapp.sandbox.cluster.kinds import ObjectKind
from ghapp.sandbox.cluster.store import Obj


class StatusError(Exception):
    """Ends a request with a `Status` of this code and reason."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: Obj | None = None,
        *,
        continuation: str = "",
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.continuation = continuation
        self.headers = headers or {}

    def document(self) -> Obj:
        """Returns the `Status`."""
        document: Obj = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {"continue": self.continuation} if self.continuation else {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            document["reason"] = self.reason
        if self.details is not None:
            document["details"] = self.details
        document["code"] = self.code
        return document


class StatusCause(NamedTuple):
    """One mistake in an object: `reason` is of the API (`FieldValueInvalid`)."""

    reason: str
    message: str
    field: str


def details_of(kind: ObjectKind, name: str) -> Obj:
    """Returns the details that name an object by its resource."""
    return _details(name, kind.group, kind.plural)


def not_found(kind: ObjectKind, name: str) -> StatusError:
    """The object does not exist."""
    message = f'{kind.qualified} "{name}" not found'
    return StatusError(HTTPStatus.NOT_FOUND, "NotFound", message, details_of(kind, name))


def unknown_resource() -> StatusError:
    """The resource does not exist: an unknown path, or a CRD that is not installed."""
    message = "the server could not find the requested resource"
    return StatusError(HTTPStatus.NOT_FOUND, "NotFound", message)


def already_exists(kind: ObjectKind, name: str) -> StatusError:
    """An object of that name exists."""
    message = f'{kind.qualified} "{name}" already exists'
    return StatusError(HTTPStatus.CONFLICT, "AlreadyExists", message, details_of(kind, name))


def conflict(kind: ObjectKind, name: str, why: str, *, by_kind: bool = False) -> StatusError:
    """A precondition did not hold; those of a DELETE name the object by its kind."""
    called = kind.kind if by_kind else kind.plural
    qualified = f"{called}.{kind.group}" if kind.group else called
    message = f'RestOperation cannot be fulfilled on {qualified} "{name}": {why}'
    return StatusError(HTTPStatus.CONFLICT, "Conflict", message, _details(name, kind.group, called))


def stale(kind: ObjectKind, name: str) -> StatusError:
    """An update was made from an older version."""
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(kind, name, why)


def invalid(kind: ObjectKind, name: str, causes: Sequence[StatusCause]) -> StatusError:
    """An object breaks rules."""
    return invalid_as(kind.kind, kind.group, name, causes)


def invalid_as(called: str, group: str, name: str, causes: Sequence[StatusCause]) -> StatusError:
    """An object with that name for its kind breaks rules."""
    found = [f"{cause.field}: {cause.message}" for cause in causes]
    listed = found[0] if len(found) == 1 else f"[{', '.join(found)}]"
    qualified = f"{called}.{group}" if group else called
    details = _details(name, group, called)
    details["causes"] = [cause._asdict() for cause in causes]
    message = f'{qualified} "{name}" is invalid: {listed}'
    return StatusError(HTTPStatus.UNPROCESSABLE_ENTITY, "Invalid", message, details)


def unprocessable() -> StatusError:
    """A JSON patch that could not be applied, for instance because a `test` in it failed."""
    message = "the server rejected our request due to an error in our request"
    return StatusError(HTTPStatus.UNPROCESSABLE_ENTITY, "Invalid", message, {})


def bad_request(message: str) -> StatusError:
    """The request is invalid."""
    return StatusError(HTTPStatus.BAD_REQUEST, "BadRequest", message)


def unsupported_media(accepted: Sequence[str]) -> StatusError:
    """The body has a type that is not supported."""
    message = f"the body of the request was in an unknown format - accepted media types include: {', '.join(accepted)}"
    return StatusError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)


def method_not_allowed() -> StatusError:
    """The resource does not support the verb."""
    message = "the server does not allow this method on the requested resource"
    return StatusError(HTTPStatus.METHOD_NOT_ALLOWED, "MethodNotAllowed", message, {})


def unauthorized() -> StatusError:
    """The token is unknown."""
    return StatusError(HTTPStatus.UNAUTHORIZED, "Unauthorized", "Unauthorized")


def expired(message: str, continuation: str = "") -> StatusError:
    """A version is not kept any more."""
    return StatusError(HTTPStatus.GONE, "Expired", message, continuation=continuation)


def too_large_version(asked: int, current: int) -> StatusError:
    """A list of a future version was requested."""
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    details = {"causes": causes, "retryAfterSeconds": 1}
    message = f"Too large resource version: {asked}, current: {current}"
    return StatusError(HTTPStatus.GATEWAY_TIMEOUT, "Timeout", message, details, headers={"retry-after": "1"})


def forbidden(group: str, resource: str, name: str, why: str) -> StatusError:
    """An authenticated user may not do this."""
    qualified = f"{resource}.{group}" if group else resource
    named = f'{qualified} "{name}"' if name else qualified
    message = f"{named} is forbidden: {why}"
    return StatusError(HTTPStatus.FORBIDDEN, "Forbidden", message, _details(name, group, resource))


def forbidden_path(why: str) -> StatusError:
    """The same, for a non-resource path."""
    return StatusError(HTTPStatus.FORBIDDEN, "Forbidden", f"forbidden: {why}", {})


def succeeded(kind: ObjectKind, name: str, uid: str) -> Obj:
    """Returns the answer to a DELETE of an object that is deleted."""
    details = details_of(kind, name) | {"uid": uid}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def _details(name: str, group: str, kind: str) -> Obj:
    """Returns details without empty fields, as Go omits them."""
    return {key: value for key, value in (("name", name), ("group", group), ("kind", kind)) if value}
