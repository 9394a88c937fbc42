"""What an answer other than 2xx means. The one place where the API server's `Status` is understood."""

from __future__ import annotations

import re

import msgspec

from ghapp.cluster.request import ClusterRequest
from ghapp.errors import (
    ClusterError,
    ClusterForbiddenError,
    ClusterUnavailableError,
    ConflictError,
    ResourceMissingError,
    VersionGoneError,
)

BAD_REQUEST = 400
NOT_FOUND = 404
UNPROCESSABLE = 422
LONGEST_SAID = 300

_WHO = re.compile(r'User "([^"]+)" cannot ')


class _Details(msgspec.Struct):
    name: str = ""
    kind: str = ""


class ApiStatus(msgspec.Struct):
    """The body of a refusal, and the object of a watch's ERROR event. All empty where it is something else."""

    kind: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: _Details | None = None


class RefusedError(ClusterError):
    """The API server understood, and does not want it: 400, 413, 422 and the like.

    Attributes:
        code: the HTTP status.
    """

    def __init__(self, message: str, *, code: int) -> None:
        super().__init__(message)
        self.code = code


_status = msgspec.json.Decoder(ApiStatus)


def read_status(body: bytes) -> ApiStatus:
    """A body that may be a `Status`: an unknown path is answered in plain text, and proxies answer as they like."""
    try:
        status = _status.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ApiStatus()
    return status if status.kind == "Status" else ApiStatus()


def says_absent(call: ClusterRequest, code: int, body: bytes) -> bool:
    """Whether a refusal says that this very object does not exist.

    A 404 also comes for a CRD that is not installed, a namespace that is not there, and from whatever stands between
    us and the API server; none of these says anything of the object.
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
    """The error that a refusal is, in our words.

    Args:
        call: what was asked.
        code: of HTTP, or of the `Status` in a watch's ERROR event.
        body: what came with it.
    """
    status = read_status(body)
    said = f": {one_line(status.message)}" if status.message else ""
    match code:
        case 401:
            return ClusterUnavailableError(f"{call}: the cluster does not accept our credentials (401)")
        case 403:
            return _forbidden(call, status)
        case 404:
            return _missing(call, status)
        case 409:
            return ConflictError(f"{call}: it is not what it was when it was read{said}")
        case 410:
            return VersionGoneError(f"{call}: that version is not kept any more{said}")
        case 429:
            return ClusterUnavailableError(f"{call}: the cluster has too much to do (429)")
        case _ if 400 <= code < 500:  # noqa: PLR2004
            return RefusedError(f"{call}: the cluster answered {code}{said}", code=code)
        case _:  # a redirect, too, is no answer
            return ClusterUnavailableError(f"{call}: the cluster answered {code}{said}")


def _forbidden(call: ClusterRequest, status: ApiStatus) -> ClusterForbiddenError:
    resource = call.rbac_resource
    who = _WHO.search(status.message)
    if status.message and who is None:  # not RBAC's words: an admission plugin's, a quota's
        said = f"{call}: forbidden: {one_line(status.message)}"
        return ClusterForbiddenError(said, verb=call.verb, resource=resource)
    role = f"a Role in namespace {call.namespace}" if call.namespace else "a ClusterRole"
    subject = f" bound to {who[1]}" if who else " bound to ghapp's ServiceAccount"
    lacks = f"RBAC lacks {call.verb} on {resource}: {role}{subject} must allow it"
    return ClusterForbiddenError(lacks, verb=call.verb, resource=resource)


def _missing(call: ClusterRequest, status: ApiStatus) -> ClusterError:
    details = status.details or _Details()
    if details.kind == "namespaces" and details.name:
        return ResourceMissingError(f"{call}: there is no namespace {details.name}")
    if call.resource.group:
        return ResourceMissingError(f"{call}: the cluster does not know {call.resource}; install its CRD")
    return ResourceMissingError(f"{call}: 404, and not from a Kubernetes API server; check the cluster's address")


def one_line(text: str) -> str:
    """Foreign words, as a line of ours has room for them."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_SAID else line[:LONGEST_SAID] + "…"
