"""GitHub Apps, their installations and tokens."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

TOKEN_SECONDS = 3600
_RANK = {"read": 1, "write": 2, "admin": 3}


@cache
def key_pair(number: int) -> tuple[str, str]:  # noqa: ARG001 -- the key of the cache
    """Returns the private and public PEM of the number-th App; generated once in a process, for that takes time."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return private.decode(), public.decode()


@dataclass(slots=True)
class SandboxHook:
    """Where an App's deliveries go; an empty URL sends none."""

    url: str = ""
    secret: str = ""
    content_type: str = "json"


@dataclass(slots=True, eq=False)
class App:
    """A GitHub App with its credentials; `owner` is the login of an organization or a person."""

    id: int
    slug: str
    name: str
    owner: str
    client_id: str
    client_secret: str
    private_key_pem: str
    public_key_pem: str
    permissions: dict[str, str]
    events: tuple[str, ...]
    hook: SandboxHook
    created_at: float
    external_url: str = "https://example.com"
    description: str = ""
    setup_url: str = ""
    callback_urls: tuple[str, ...] = ()


@dataclass(slots=True, eq=False)
class SandboxInstallation:
    """The installation of an App on an organization, with the permissions that its admins granted."""

    id: int
    app: App
    org: str
    permissions: dict[str, str]
    created_at: float
    suspended_at: float | None = None
    repositories: tuple[str, ...] | None = None

    @property
    def selection(self) -> str:
        """Returns `all` or `selected`, for the repositories."""
        return "all" if self.repositories is None else "selected"

    def sees(self, repository: str) -> bool:
        """True if the repository of that name belongs to the installation."""
        return self.repositories is None or repository in self.repositories


@dataclass(frozen=True, slots=True)
class SandboxToken:
    """An installation token.

    Attributes:
        granted: its permissions when it was issued; permissions that the installation is granted later are not added.
    """

    value: str
    installation: SandboxInstallation
    expires_at: float
    granted: dict[str, str]

    @property
    def minted_at(self) -> float:
        """Epoch seconds."""
        return self.expires_at - TOKEN_SECONDS

    def allows(self, permission: str, level: str) -> bool:
        """True if both the installation and the token have the permission at this level."""
        return holds(self.installation.permissions, permission, level) and holds(self.granted, permission, level)


def holds(permissions: dict[str, str], permission: str, level: str) -> bool:
    """True if these permissions include this one: write includes read."""
    return _RANK.get(permissions.get(permission, ""), 0) >= _RANK[level]
