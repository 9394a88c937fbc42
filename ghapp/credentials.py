"""What makes a process the App: given by the environment, or kept in a file since /setup obtained it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from ghapp.errors import ConfigurationError

VARIABLES = (
    "GHAPP_APP_ID",
    "GHAPP_PRIVATE_KEY",
    "GHAPP_PRIVATE_KEY_FILE",
    "GHAPP_WEBHOOK_SECRET",
    "GHAPP_WEBHOOK_SECRET_FILE",
)
KEPT_NAME = "app.json"


@dataclass(frozen=True, slots=True)
class AppCredentials:
    """What makes this process the App.

    Attributes:
        app_id: its id or client id.
        private_key: PEM.
        webhook_secrets: newest first; several while one is being rotated.
        install_url: where it is installed on an organization; None when it was not /setup that created it.
    """

    app_id: str
    private_key: str = field(repr=False)
    webhook_secrets: tuple[str, ...] = field(repr=False)
    install_url: str | None = None


@dataclass(frozen=True, slots=True)
class CreatedApp:
    """An App as GitHub described it, once, when it was created from our manifest.

    Attributes:
        html_url: its page.
        webhook_secret: None when GitHub made none.
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
        """What the roles need of it."""
        secrets = (self.webhook_secret,) if self.webhook_secret else ()
        return AppCredentials(str(self.id), self.pem, secrets, f"{self.html_url}/installations/new")


_kept = msgspec.json.Decoder(CreatedApp)


def read_credentials(environ: Mapping[str, str], state_dir: Path) -> AppCredentials | None:
    """The environment's credentials, else those of the App that /setup created; None while there are none.

    Raises:
        ConfigurationError: as `given` and `kept` do.
    """
    if (credentials := given(environ)) is not None:
        return credentials
    app = kept(state_dir)
    return None if app is None else app.credentials


def given(environ: Mapping[str, str]) -> AppCredentials | None:
    """The credentials in the environment, or None when none of them is set.

    Raises:
        ConfigurationError: half of them is set, a file cannot be read or can be read by everyone, the key is none.
    """
    app_id = environ.get("GHAPP_APP_ID", "").strip()
    private_key = _secret(environ, "GHAPP_PRIVATE_KEY").replace("\\n", "\n").strip()
    secrets = tuple(part.strip() for part in _secret(environ, "GHAPP_WEBHOOK_SECRET").split(",") if part.strip())
    values = {"GHAPP_APP_ID": app_id, "GHAPP_PRIVATE_KEY": private_key, "GHAPP_WEBHOOK_SECRET": secrets}
    if not any(values.values()):
        return None
    missing = [name for name, value in values.items() if not value]
    if missing:
        raise ConfigurationError(f"{missing[0]}: not set, though other App credentials are; set all three or none")
    named = "GHAPP_PRIVATE_KEY_FILE" if environ.get("GHAPP_PRIVATE_KEY_FILE") else "GHAPP_PRIVATE_KEY"
    _require_key(private_key, named)
    return AppCredentials(app_id, private_key + "\n", secrets)


def kept(state_dir: Path) -> CreatedApp | None:
    """The App that /setup created, or None when it has created none.

    Raises:
        ConfigurationError: the file cannot be read, can be read by everyone, or is not what was written.
    """
    path = state_dir / KEPT_NAME
    text = _read_private(path, "GHAPP_STATE_DIR")
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
    """Keep it for every later start: all of it or nothing, and from its first byte for its owner alone.

    Raises:
        ConfigurationError: its key is none, and would be refused at every later start.
        OSError: it could not be written.
    """
    _require_key(app.pem, "GitHub's answer")
    state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{KEPT_NAME}.", dir=state_dir)  # made with mode 0600
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


def _read_private(path: Path, named: str) -> str | None:
    """The text of a file that not everyone can read; None when there is no such file."""
    try:
        if path.stat().st_mode & 0o007:
            raise ConfigurationError(f"{named}: {path} can be read by everyone; chmod 600 it")
        return path.read_text("utf-8")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigurationError(f"{named}: cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{named}: {path} is not text; a key must be PEM, not DER") from None


def _require_key(pem: str, named: str) -> None:
    # Imported here: a command that needs no credentials is not to wait for it.
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(pem.encode(), None, unsafe_skip_rsa_key_validation=True)
    except (ValueError, TypeError, UnsupportedAlgorithm):  # TypeError: it wants a passphrase
        key = None
    if not isinstance(key, RSAPrivateKey):
        raise ConfigurationError(f"{named}: not a PEM private key; give the .pem file that GitHub made for the App")
