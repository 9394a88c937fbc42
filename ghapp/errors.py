"""Every error that crosses a module's edge.

Each is raised once, where the foreign error was understood, and its message says what to do about it.
"""

from __future__ import annotations


class GhappError(Exception):
    """Anything that `ghapp` says about itself; a message for people, without a traceback."""


class ConfigurationError(GhappError):
    """The environment or the TOML file says something that cannot be; names the key and what would be right."""


class StoreUnavailableError(GhappError):
    """Redis did not answer, or answered that it cannot keep anything just now."""


class LockLostError(GhappError):
    """A lock was lost while it was held; what was begun under it must not go on."""


class UnknownJobError(GhappError):
    """A job in Redis whose name this version does not register."""


class MalformedDeliveryError(GhappError):
    """A webhook body that is no JSON, or lacks what its event always has."""


class GitHubError(GhappError):
    """GitHub gave no usable answer. None of these ever means that a runner is gone."""


class GitHubUnavailableError(GitHubError):
    """5xx, a time-out, a broken connection, or a body that is not what the API describes."""


class NotFoundError(GitHubError):
    """404 where something must be: the org has another name, or a permission is missing and GitHub does not say so."""


class RateLimitedError(GitHubError):
    """GitHub says: not now.

    Attributes:
        after_seconds: how long nobody should ask again.
    """

    def __init__(self, message: str, *, after_seconds: float) -> None:
        super().__init__(message)
        self.after_seconds = after_seconds


class BudgetSpentError(GitHubError):
    """Our own budget says: not now. Nothing was sent."""


class PermissionMissingError(GitHubError):
    """403, or a 404 in its guise: the installation does not hold what the call needs.

    Attributes:
        accepted: GitHub's `x-accepted-github-permissions`, empty when it did not say.
    """

    def __init__(self, message: str, *, accepted: str = "") -> None:
        super().__init__(message)
        self.accepted = accepted


class UnauthorizedError(GitHubError):
    """401: the App's key, id, or a token is not (or not yet) valid."""


class InstallationSuspendedError(GitHubError):
    """The organization suspended the App: no token can be minted."""


class InstallationGoneError(GitHubError):
    """The App is not installed there any more (or GitHub says so): no token can be minted."""


class CodeRefusedError(GitHubError):
    """GitHub gives no App for this code of the manifest flow: it is good once, and for an hour."""


class ReplacerUnavailableError(GhappError):
    """A pool's controller did not accept an event; it is tried again, with the same id."""


class ClusterError(GhappError):
    """The cluster gave no usable answer. None of these ever means that a pod or an object is gone."""


class ClusterUnavailableError(ClusterError):
    """No API server, a time-out, a broken connection, 401, 429, 5xx, or a body that is not what the API describes."""


class ClusterForbiddenError(ClusterError):
    """403: RBAC lacks a verb.

    Attributes:
        verb: `get`, `list`, `watch`, `delete`, `patch`, …
        resource: as RBAC writes it, `pods` or `ephemeralrunners.actions.github.com`.
    """

    def __init__(self, message: str, *, verb: str, resource: str) -> None:
        super().__init__(message)
        self.verb, self.resource = verb, resource


class ResourceMissingError(ClusterError):
    """The API server does not know such objects: a CRD is not installed."""


class ConflictError(ClusterError):
    """409: the object is not what it was when it was read. Look again."""


class VersionGoneError(ClusterError):
    """410: the watch's version is no longer kept. List again."""


class LogStoreUnavailableError(GhappError):
    """The log store that `GHAPP_LOKI_URL` names gave no usable answer."""


class PodClaimsFullError(GhappError):
    """An installation's controllers hold as many pod claims as are kept; nothing was recorded."""
