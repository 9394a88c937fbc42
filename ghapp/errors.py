"""All errors that cross a module boundary.

Each is raised once, where the foreign error was understood, and its message has what to do.
"""

from __future__ import annotations

from enum import Enum


class GhappError(Exception):
    """Base of all errors of `ghapp`; the message is for people, without a traceback."""


class ConfigurationError(GhappError):
    """Values in the environment or the TOML file are invalid; each mistake names the key and a valid value."""

    def __init__(self, *mistakes: str) -> None:
        super().__init__(*mistakes)
        self.mistakes = mistakes

    def __str__(self) -> str:
        return "\n".join(self.mistakes)


class StoreUnavailableError(GhappError):
    """Redis did not answer, refused a command, or a record was changed concurrently too often."""


class Refusal(Enum):
    """Why Redis refused a command: it is a replica, its memory or disk is full, or the ACL user lacks the right."""

    REPLICA = "replica"
    MEMORY = "memory"
    DISK = "disk"
    PERMISSION = "permission"
    OTHER = "other"


class StoreRefusedError(StoreUnavailableError):
    """Redis answered a command with an error.

    Attributes:
        why: Redis' own message.
        refusal: what kind of error that is.
    """

    def __init__(self, why: str, refusal: Refusal = Refusal.OTHER) -> None:
        super().__init__(f"Redis refused a command: {why}; see `ghapp doctor`")
        self.why, self.refusal = why, refusal


class ServerUnavailableError(GhappError):
    """The server at GHAPP_URL did not answer, or answered that it is unavailable."""


class LockLostError(GhappError):
    """A lock expired or was taken over while it was held; the work under it must stop."""


class UnknownJobError(GhappError):
    """A job in Redis whose name this version does not register."""


class MalformedDeliveryError(GhappError):
    """A webhook body that is not JSON, or lacks a field that its event always has."""


class NotificationError(GhappError):
    """A receiver of notifications refused one, or did not answer in time."""


class GitHubError(GhappError):
    """GitHub gave no usable answer. None of these errors means that a runner is absent."""


class GitHubUnavailableError(GitHubError):
    """5xx, a time-out, a broken connection, or a body that is not what the API describes."""


class NotFoundError(GitHubError):
    """404 for an object that must exist: the org was renamed, or a permission is missing and GitHub hides that."""


class DeletedError(GitHubError):
    """410: what was asked for existed, and was deleted for good."""


class RateLimitedError(GitHubError):
    """GitHub's rate limit was hit.

    Attributes:
        after_seconds: time until requests may resume.
    """

    def __init__(self, message: str, *, after_seconds: float) -> None:
        super().__init__(message)
        self.after_seconds = after_seconds


class SpentLimit(Enum):
    """Which limit a call would have exceeded."""

    SHARE = "share"
    """Our own: `[budget] share` of the hourly limit."""
    HELD = "held"
    """GitHub asked to wait."""
    POINTS = "points"
    """GitHub's points of a minute."""
    IN_FLIGHT = "in-flight"
    """GitHub's number of concurrent calls."""
    TURN = "turn"
    """GitHub's points of a minute; the call has a turn of its own, so that many that wait share them fairly."""
    CREATIONS = "creations"
    """GitHub's number of created check runs."""


class BudgetSpentError(GitHubError):
    """A limit is reached; no request was sent.

    Attributes:
        limit: which one.
        after_seconds: time until the call may be sent, as far as that is known now.
    """

    def __init__(self, message: str, limit: SpentLimit, after_seconds: float) -> None:
        super().__init__(message)
        self.limit, self.after_seconds = limit, after_seconds


class CreationsSpentError(BudgetSpentError):
    """As many check runs were created lately as GitHub permits; none was sent."""

    def __init__(self, message: str, *, after_seconds: float) -> None:
        super().__init__(message, SpentLimit.CREATIONS, after_seconds)


class PermissionMissingError(GitHubError):
    """403, or a 404 that stands for it: the installation lacks a permission that the call needs.

    Attributes:
        accepted: GitHub's `x-accepted-github-permissions`; empty when the header is missing.
        explanation: GitHub's own message, at most 200 characters; empty if the answer has none.
        needs_single_sign_on: True if the token must be authorized for an organization's SAML single sign-on.
    """

    def __init__(
        self,
        message: str,
        *,
        accepted: str = "",
        explanation: str = "",
        needs_single_sign_on: bool = False,
    ) -> None:
        super().__init__(message)
        self.accepted, self.explanation = accepted, explanation
        self.needs_single_sign_on = needs_single_sign_on


class UnauthorizedError(GitHubError):
    """401: the App's key, its id, or a token is invalid, or not valid yet."""


class UnknownTargetError(GhappError):
    """`ghapp scan` was asked for what is no organization, repository or enterprise that the token may see."""


class InstallationSuspendedError(GitHubError):
    """The organization suspended the App: no token can be minted."""


class InstallationMissingError(GitHubError):
    """The App was uninstalled there, or GitHub reports so: no token can be minted."""


class CodeRefusedError(GitHubError):
    """GitHub rejects this code of the manifest flow; a code is valid once, and for an hour."""


class ReplacerUnavailableError(GhappError):
    """A pool's controller did not accept an event; it is retried with the same id."""


class ClusterError(GhappError):
    """The cluster gave no usable answer. None of these errors means that a pod or an object was deleted."""


class ClusterUnavailableError(ClusterError):
    """No API server, a time-out, a broken connection, 401, 429, 5xx, or a body that is not what the API describes."""


class ClusterForbiddenError(ClusterError):
    """403: RBAC lacks a verb, or something else forbids the request.

    Attributes:
        verb: `get`, `list`, `watch`, `delete`, `patch`, …
        resource: as RBAC writes it, `pods` or `ephemeralrunners.actions.github.com`.
        by_rbac: False if an admission policy, a quota, the kubelet or a proxy forbids it: an access review answers
            nothing about these.
    """

    def __init__(self, message: str, *, verb: str, resource: str, by_rbac: bool = True) -> None:
        super().__init__(message)
        self.verb, self.resource, self.by_rbac = verb, resource, by_rbac


class ResourceMissingError(ClusterError):
    """The API server has no such resource: a CRD is not installed."""


class ConflictError(ClusterError):
    """409: the object changed since it was read; read it again."""


class ResourceVersionExpiredError(ClusterError):
    """410: the watch's resource version expired; list again."""


class LogStoreUnavailableError(GhappError):
    """The log store at `GHAPP_LOKI_URL` gave no usable answer."""


class PodClaimsFullError(GhappError):
    """An installation has the maximum of pod claims; the new one was not recorded."""
