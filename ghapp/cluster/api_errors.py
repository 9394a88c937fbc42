"""Translates answers other than 2xx, and Kubernetes' `Status`, to our errors."""

from __future__ import annotations

import re

import msgspec

from ghapp.cluster.request import ClusterRequest
from ghapp.decoding import decode
from ghapp.errors import (
    ClusterError,
    ClusterForbiddenError,
    ClusterUnavailableError,
    ConflictError,
    ResourceMissingError,
    ResourceVersionExpiredError,
)
from ghapp.untrusted_text import one_line

BAD_REQUEST = 400
NOT_FOUND = 404
UNPROCESSABLE = 422
LONGEST_SHOWN = 300

_DENIAL = re.compile(
    r'(?:\S+(?: "[^"]*")? is )?forbidden: User "(?P<user>[^"]+)" cannot \w+ (?:resource|path) "[^"]*"'
    r'(?: in API group "[^"]*")?(?: in the namespace "[^"]*"| at the cluster scope)?(?:: (?P<reason>.+))?'
)
"""How the API server words a denial by its authorizers. The words of a policy may contain such a sentence, too."""


class _Details(msgspec.Struct):
    name: str = ""
    kind: str = ""


class ApiStatus(msgspec.Struct):
    """The body of an error, and the object of a watch's ERROR event. All fields are empty for any other body."""

    kind: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: _Details | None = None


class RefusedError(ClusterError):
    """The API server rejected the request: 400, 413, 422 and the like.

    Attributes:
        code: the HTTP status.
    """

    def __init__(self, message: str, *, code: int) -> None:
        super().__init__(message)
        self.code = code


_status = msgspec.json.Decoder(ApiStatus)


def read_status(body: bytes) -> ApiStatus:
    """Parses a body that may be a `Status`; unknown paths are answered in plain text, and proxies send anything."""
    try:
        status = decode(_status, body)
    except msgspec.DecodeError:
        return ApiStatus()
    return status if status.kind == "Status" else ApiStatus()


def proves_absence(call: ClusterRequest, code: int, body: bytes) -> bool:
    """True if an error proves that this very object does not exist.

    A 404 also comes for a CRD that is not installed, for a missing namespace, and from proxies in front of the API
    server; none of these proves anything about the object.
    """
    status = read_status(body)
    details = status.details or _Details()
    return (
        code == NOT_FOUND
        and status.reason == "NotFound"
        and bool(call.name)
        and details.name == call.name
        and details.kind in ("", call.resource.plural)
    )


def error_of(call: ClusterRequest, code: int, body: bytes) -> ClusterError:
    """Returns the error for an answer.

    Args:
        call: the request.
        code: the HTTP status, or the code of the `Status` in a watch's ERROR event.
        body: the answer's body.
    """
    status = read_status(body)
    detail = f": {one_line(status.message, LONGEST_SHOWN)}" if status.message else ""
    match code:
        case 401:
            return ClusterUnavailableError(f"{call}: the cluster does not accept our credentials (401)")
        case 403:
            return _forbidden(call, status)
        case 404:
            return _missing(call, status)
        case 409:
            return ConflictError(f"{call}: the object changed since it was read{detail}")
        case 410:
            return ResourceVersionExpiredError(f"{call}: the resource version has expired{detail}")
        case 429:
            return ClusterUnavailableError(f"{call}: the API server is overloaded (429)")
        case _ if 400 <= code < 500:  # noqa: PLR2004
            return RefusedError(f"{call}: the API server answered {code}{detail}", code=code)
        case _:  # includes redirects
            return ClusterUnavailableError(f"{call}: the API server answered {code}{detail}")


def _forbidden(call: ClusterRequest, status: ApiStatus) -> ClusterForbiddenError:
    denial = _DENIAL.match(status.message)
    if denial is None:  # for example from an admission policy or a quota; without a `Status`, from a proxy
        words = (
            one_line(status.message, LONGEST_SHOWN)
            or "no reason was given (403), so it may be a proxy before the API server"
        )
        message = f"{call}: forbidden: {words}"
        return ClusterForbiddenError(message, verb=call.verb, resource=call.rbac_resource, by_rbac=False)
    lacks = rbac_lacks(call, denial["user"])
    if denial["reason"]:  # an authorizer's own words, as of a RoleBinding without its Role
        lacks += f" ({one_line(denial['reason'], LONGEST_SHOWN)})"
    return ClusterForbiddenError(lacks, verb=call.verb, resource=call.rbac_resource)


def rbac_lacks(call: ClusterRequest, account: str = "") -> str:
    """Returns which permission RBAC lacks, and where it is to be granted; `account` is our user name, if known."""
    role = f"a Role in namespace {call.namespace}" if call.namespace else "a ClusterRole"
    subject = account or "ghapp's ServiceAccount"
    return f"RBAC lacks {call.verb} on {call.rbac_resource}: {role} bound to {subject} must allow it"


def _missing(call: ClusterRequest, status: ApiStatus) -> ClusterError:
    details = status.details or _Details()
    if details.kind == "namespaces" and details.name:
        return ResourceMissingError(f"{call}: there is no namespace {details.name}")
    if call.resource.group:
        return ResourceMissingError(f"{call}: the cluster does not know {call.resource}; install its CRD")
    return ResourceMissingError(f"{call}: 404, and not from a Kubernetes API server; check the cluster's address")
