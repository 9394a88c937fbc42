"""The App's credentials, from the environment or from the file that /setup wrote, and the tokens of enterprises."""

from __future__ import annotations

import os
import re
import stat
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ParamSpec, TypeVar

import msgspec

from ghapp.errors import ConfigurationError

VARIABLES = (
    "GHAPP_APP_ID",
    "GHAPP_PRIVATE_KEY",
    "GHAPP_PRIVATE_KEY_FILE",
    "GHAPP_WEBHOOK_SECRET",
    "GHAPP_WEBHOOK_SECRET_FILE",
    "GHAPP_CLIENT_ID",
    "GHAPP_CLIENT_SECRET",
    "GHAPP_CLIENT_SECRET_FILE",
    "GHAPP_ENTERPRISE_TOKEN",
    "GHAPP_ENTERPRISE_TOKEN_FILE",
)
KEPT_NAME = "app.json"

_TOKEN = re.compile(r"[\w.~+/=-]+", re.ASCII)
_APP_ID = re.compile(r"[\w.-]+", re.ASCII)

T = TypeVar("T")
P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class SignInClient:
    """The App's client id and client secret, with which people sign in to the page."""

    id: str
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class AppCredentials:
    """The App's credentials.

    Attributes:
        app_id: its id or client id.
        private_key: PEM.
        webhook_secrets: newest first; several during a rotation.
        install_url: page where the App is installed on an organization; None for an App that /setup did not create.
        client: for signing in; None: people cannot sign in.
    """

    app_id: str
    private_key: str = field(repr=False)
    webhook_secrets: tuple[str, ...] = field(repr=False)
    install_url: str | None = None
    client: SignInClient | None = None


@dataclass(frozen=True, slots=True)
class CreatedApp:
    """An App as GitHub describes it, only once, when it was created from our manifest.

    Attributes:
        html_url: its page.
        webhook_secret: None when GitHub created none.
    """

    id: int
    name: str
    html_url: str
    client_id: str
    client_secret: str = field(repr=False)
    webhook_secret: str | None = field(repr=False)
    pem: str = field(repr=False)

    @property
    def credentials(self) -> AppCredentials:
        """The part that the roles need."""
        secrets = (self.webhook_secret,) if self.webhook_secret else ()
        client = SignInClient(self.client_id, self.client_secret)
        return AppCredentials(str(self.id), self.pem, secrets, f"{self.html_url}/installations/new", client)


_kept = msgspec.json.Decoder(CreatedApp)


def read_credentials(environ: Mapping[str, str], state_dir: Path | None) -> AppCredentials | None:
    """Returns the environment's credentials, else those of the App that /setup created; None if there are neither.

    `state_dir`: where /setup writes; None if it is not known.

    Raises:
        ConfigurationError: as `given`, `given_client` and `kept`, with each mistake.
    """
    mistakes: list[str] = []
    credentials = _collect(mistakes, given, environ)
    client = _collect(mistakes, given_client, environ)
    if mistakes:
        raise ConfigurationError(*mistakes)
    if credentials is None and state_dir is not None and (app := kept(state_dir)) is not None:
        credentials = app.credentials
    if credentials is None or client is None:
        return credentials
    return replace(credentials, client=client)


def given(environ: Mapping[str, str]) -> AppCredentials | None:
    """Returns the credentials in the environment; None if no variable of them is set.

    Raises:
        ConfigurationError: with each mistake: only some are set, the id has a blank, a file is unreadable or
            world-readable, or the key is not a PEM key.
    """
    mistakes: list[str] = []
    app_id = environ.get("GHAPP_APP_ID", "").strip()
    if app_id and not _APP_ID.fullmatch(app_id):
        mistakes.append("GHAPP_APP_ID: it takes the App's id or client id: digits, or letters and digits, no blanks")
    private_key = _collect(mistakes, _private_key, environ)
    secrets = _collect(mistakes, _secrets, environ, "GHAPP_WEBHOOK_SECRET")
    values = {"GHAPP_APP_ID": app_id, "GHAPP_PRIVATE_KEY": private_key, "GHAPP_WEBHOOK_SECRET": secrets}
    if not mistakes and not any(values.values()):
        return None
    missing = [name for name, value in values.items() if value is not None and not value]  # None has its mistake
    if missing:
        all_three = f"set all of {', '.join(values)}, or none"
        mistakes.append(f"{' and '.join(missing)}: not set, though other App credentials are; {all_three}")
    if mistakes or not private_key or not secrets:
        raise ConfigurationError(*mistakes)
    return AppCredentials(app_id, private_key + "\n", secrets)


def _private_key(environ: Mapping[str, str]) -> str:
    private_key = _secret(environ, "GHAPP_PRIVATE_KEY").replace("\\n", "\n").strip()
    if private_key:
        named = "GHAPP_PRIVATE_KEY_FILE" if environ.get("GHAPP_PRIVATE_KEY_FILE") else "GHAPP_PRIVATE_KEY"
        _require_key(private_key, named)
    return private_key


def _collect(mistakes: list[str], read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
    """Returns what `read` returns; None if that raises mistakes, which are added to the others."""
    try:
        return read(*args, **kwargs)
    except ConfigurationError as error:
        mistakes += error.mistakes
        return None


def given_client(environ: Mapping[str, str]) -> SignInClient | None:
    """Returns the client id and secret in the environment; None if neither is set.

    Raises:
        ConfigurationError: one of them is missing, or the file is unreadable or world-readable.
    """
    client_id, secret = environ.get("GHAPP_CLIENT_ID", "").strip(), _secret(environ, "GHAPP_CLIENT_SECRET").strip()
    if not client_id and not secret:
        return None
    if not client_id or not secret:
        missing, other = (
            ("GHAPP_CLIENT_ID", "GHAPP_CLIENT_SECRET") if secret else ("GHAPP_CLIENT_SECRET", "GHAPP_CLIENT_ID")
        )
        raise ConfigurationError(
            f"{missing}: not set, though {other} is; set both, or neither for a page without sign-in"
        )
    return SignInClient(client_id, secret)


def enterprise_tokens(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the classic tokens for enterprises' runners, preferred first: several during a rotation.

    Raises:
        ConfigurationError: one cannot be sent in a header, or the file is unreadable or world-readable.
    """
    tokens = _secrets(environ, "GHAPP_ENTERPRISE_TOKEN")
    if not all(_TOKEN.fullmatch(each) for each in tokens):
        raise ConfigurationError("GHAPP_ENTERPRISE_TOKEN: it takes a classic token (ghp_…), without spaces or quotes")
    return tokens


def kept(state_dir: Path) -> CreatedApp | None:
    """Returns the App that /setup created; None if it created none.

    Raises:
        ConfigurationError: the file is unreadable, world-readable, or was not written by /setup.
    """
    path = state_dir / KEPT_NAME
    text = _read_private(path, "GHAPP_STATE_DIR", may_be_pipe=False)
    if text is None:
        return None
    try:
        app = _kept.decode(text)
    except msgspec.DecodeError:
        raise ConfigurationError(
            f"GHAPP_STATE_DIR: {path} is not what /setup wrote; restore it, or remove it and create another App"
        ) from None
    _require_key(app.pem, f"GHAPP_STATE_DIR: {path}")
    return app


def keep(state_dir: Path, app: CreatedApp) -> None:
    """Writes the App's file atomically, with mode 0600 from the start.

    Raises:
        ConfigurationError: its key is not a PEM key, and would be rejected at every later start.
        OSError: the file could not be written.
    """
    _require_key(app.pem, "GitHub's answer")
    state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{KEPT_NAME}.", dir=state_dir)  # mkstemp creates it with mode 0600
    file_name = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(app))
            file.flush()
            os.fsync(file.fileno())
        file_name.replace(state_dir / KEPT_NAME)
    except BaseException:
        file_name.unlink(missing_ok=True)
        raise


def _secrets(environ: Mapping[str, str], name: str) -> tuple[str, ...]:
    """Returns comma-separated secrets."""
    return tuple(part.strip() for part in _secret(environ, name).split(",") if part.strip())


def _secret(environ: Mapping[str, str], name: str) -> str:
    if environ.get(name) and environ.get(f"{name}_FILE"):
        raise ConfigurationError(f"{name}: set together with {name}_FILE; set one of them")
    file = environ.get(f"{name}_FILE")
    if not file:
        return environ.get(name, "")
    text = _read_private(Path(file), f"{name}_FILE")
    if text is None:
        raise ConfigurationError(f"{name}_FILE: cannot read {file}: there is no such file")
    return text


def _read_private(path: Path, named: str, *, may_be_pipe: bool = True) -> str | None:
    """Returns the text of a file that is not world-readable; None if there is no such file.

    A pipe, as of a shell's `<(…)`, is read to its end; one without a writer would be waited for.
    """
    try:
        mode = path.stat().st_mode
        if not may_be_pipe and not stat.S_ISREG(mode):
            raise ConfigurationError(f"{named}: {path} is not a regular file; remove it")
        if mode & 0o007:
            raise ConfigurationError(f"{named}: {path} can be read by everyone; chmod 600 it")
        return path.read_text("utf-8")
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        raise ConfigurationError(f"{named}: {path.parent} is not a directory") from None
    except OSError as error:
        raise ConfigurationError(f"{named}: cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{named}: {path} is not text; a key must be PEM, not DER") from None


def _require_key(pem: str, named: str) -> None:
    # Imported here, because the import is slow and most commands need no credentials.
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(pem.encode(), None, unsafe_skip_rsa_key_validation=True)
    except (ValueError, TypeError, UnsupportedAlgorithm):  # TypeError: the key needs a passphrase
        key = None
    if not isinstance(key, RSAPrivateKey):
        raise ConfigurationError(f"{named}: not a PEM private key; give the .pem file that GitHub made for the App")
