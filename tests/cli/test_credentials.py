"""The App's credentials: from the environment, or from the file that /setup wrote; invalid credentials are refused."""

from __future__ import annotations

import os
import stat

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from ghapp import credentials
from ghapp.credentials import AppCredentials, CreatedApp, SignInClient, keep, kept, read_credentials
from ghapp.errors import ConfigurationError
from tests.support.keys import private_key

URL = "https://github.com/apps/ghapp"


def app(**changes):
    values = {"id": 7, "name": "ghapp", "html_url": URL, "client_id": "Iv1.a", "client_secret": "c"}
    return CreatedApp(**{**values, "webhook_secret": "w", "pem": private_key(), **changes})


def given(key):
    return {"GHAPP_APP_ID": "1", "GHAPP_PRIVATE_KEY": key, "GHAPP_WEBHOOK_SECRET": "s"}


# The stored file.


def test_stored_credentials_are_read_back_unchanged(tmp_path):
    assert kept(tmp_path) is None
    keep(tmp_path, app())
    assert kept(tmp_path) == app()


def test_a_created_app_has_credentials_with_the_installation_address():
    secrets = ("w",)
    client = SignInClient(app().client_id, app().client_secret)
    assert app().credentials == AppCredentials("7", private_key(), secrets, f"{URL}/installations/new", client)


def test_the_file_is_created_with_access_for_its_owner_only(tmp_path, monkeypatch):
    modes = []

    def watched(descriptor, *arguments, **options):
        modes.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        return fdopen(descriptor, *arguments, **options)

    fdopen, umask = os.fdopen, os.umask(0)
    monkeypatch.setattr(credentials.os, "fdopen", watched)
    try:
        keep(tmp_path / "state", app())
    finally:
        os.umask(umask)
    assert modes == [0o600]
    assert (tmp_path / "state" / "app.json").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700


def test_a_failed_write_keeps_the_previous_file(tmp_path, monkeypatch):
    keep(tmp_path, app(name="before"))

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(credentials.os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        keep(tmp_path, app(name="after"))
    assert kept(tmp_path).name == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["app.json"]


def test_an_invalid_key_is_not_stored(tmp_path):
    with pytest.raises(ConfigurationError):
        keep(tmp_path, app(pem="(a PEM private key)"))
    assert list(tmp_path.iterdir()) == []


def test_the_representation_contains_no_secret():
    shown = repr(app(client_secret="hunter2", webhook_secret="hunter3")) + repr(
        app(webhook_secret="hunter3").credentials
    )
    assert not [secret for secret in ("hunter2", "hunter3", "BEGIN") if secret in shown]


@pytest.mark.parametrize("mode", [0o604, 0o644, 0o602], ids=oct)
def test_a_world_readable_file_is_refused(tmp_path, mode):
    keep(tmp_path, app())
    (tmp_path / "app.json").chmod(mode)
    with pytest.raises(ConfigurationError, match=r"^GHAPP_STATE_DIR: .*app\.json can be read by everyone; chmod 600"):
        kept(tmp_path)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b'{"id": 7}', b"null"])
def test_a_file_with_other_content_is_refused(tmp_path, content):
    keep(tmp_path, app())
    (tmp_path / "app.json").write_bytes(content)
    with pytest.raises(ConfigurationError, match="is not what /setup wrote; restore it, or remove it"):
        kept(tmp_path)


# Precedence.


def test_the_environment_takes_precedence(tmp_path):
    keep(tmp_path, app())
    assert read_credentials(given(private_key()), tmp_path).app_id == "1"
    assert read_credentials({}, tmp_path).app_id == "7"


def test_the_file_is_not_read_if_the_environment_has_the_credentials(tmp_path):
    (tmp_path / "app.json").write_text("{")
    assert read_credentials(given(private_key()), tmp_path).app_id == "1"


def test_the_oauth_client_is_read_from_the_environment_or_from_the_file(tmp_path):
    assert read_credentials(given(private_key()), tmp_path).client is None
    client = {"GHAPP_CLIENT_ID": "Iv1.b", "GHAPP_CLIENT_SECRET": " hunter2\n"}
    assert read_credentials(given(private_key()) | client, tmp_path).client == SignInClient("Iv1.b", "hunter2")
    keep(tmp_path, app())
    assert read_credentials({}, tmp_path).client == SignInClient(app().client_id, app().client_secret)
    assert read_credentials(client, tmp_path).client == SignInClient("Iv1.b", "hunter2")


def test_the_client_secret_may_be_in_a_file_that_is_not_world_readable(tmp_path):
    file = tmp_path / "secret"
    file.write_text("hunter2\n")
    file.chmod(0o600)
    client = {"GHAPP_CLIENT_ID": "Iv1.b", "GHAPP_CLIENT_SECRET_FILE": str(file)}
    assert read_credentials(given(private_key()) | client, tmp_path).client == SignInClient("Iv1.b", "hunter2")
    file.chmod(0o644)
    with pytest.raises(ConfigurationError, match=r"^GHAPP_CLIENT_SECRET_FILE: .* can be read by everyone"):
        read_credentials(given(private_key()) | client, tmp_path)


@pytest.mark.parametrize(
    ("environ", "missing"),
    [
        ({"GHAPP_CLIENT_ID": "Iv1.b"}, "GHAPP_CLIENT_SECRET"),
        ({"GHAPP_CLIENT_SECRET": "hunter2"}, "GHAPP_CLIENT_ID"),
    ],
)
def test_an_incomplete_client_is_refused(tmp_path, environ, missing):
    with pytest.raises(ConfigurationError, match=f"^{missing}: not set, though GHAPP_CLIENT") as refused:
        read_credentials(given(private_key()) | environ, tmp_path)
    assert "hunter2" not in str(refused.value)


def test_without_environment_and_file_there_are_no_credentials(tmp_path):
    assert read_credentials({}, tmp_path / "nothing") is None


def test_incomplete_credentials_in_the_environment_are_refused_despite_a_stored_file(tmp_path):
    keep(tmp_path, app())
    with pytest.raises(ConfigurationError, match="GHAPP_PRIVATE_KEY: not set"):
        read_credentials({"GHAPP_APP_ID": "1", "GHAPP_WEBHOOK_SECRET": "s"}, tmp_path)


# Private keys.


def pem(key, form=PrivateFormat.PKCS8, encryption=None):
    return key.private_bytes(Encoding.PEM, form, encryption or NoEncryption()).decode()


@pytest.fixture(scope="module")
def key():
    return rsa.generate_private_key(public_exponent=65537, key_size=1024)


@pytest.mark.parametrize("form", [PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL])
def test_both_pem_formats_are_accepted(tmp_path, key, form):
    assert read_credentials(given(pem(key, form)), tmp_path).private_key == pem(key, form)


def no_keys(key):
    whole = pem(key)
    return {
        "a frame with nothing in it": "-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----",
        "a frame with something else in it": "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----",
        "half of a key": whole[: len(whole) // 2],
        "a key without its last line": whole.rsplit("\n", 2)[0],
        "a public key": key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode(),
        "a key that is not RSA": pem(ec.generate_private_key(ec.SECP256R1())),
        "a key with a passphrase": pem(key, encryption=BestAvailableEncryption(b"secret")),
        "a path": "/run/secrets/app.pem",
    }


def test_an_invalid_key_is_refused_in_one_line_with_its_variable_and_without_its_value(tmp_path, key):
    refused = {}
    for name, text in no_keys(key).items():
        with pytest.raises(ConfigurationError) as error:
            read_credentials(given(text), tmp_path)
        refused[name] = str(error.value)
    expected = "GHAPP_PRIVATE_KEY: not a PEM private key; give the .pem file that GitHub made for the App"
    assert refused == dict.fromkeys(no_keys(key), expected)


def test_a_file_without_a_key_is_reported_by_its_path(tmp_path):
    file = tmp_path / "app.pem"
    file.touch(mode=0o600)
    file.write_text("-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----")
    environ = {"GHAPP_APP_ID": "1", "GHAPP_PRIVATE_KEY_FILE": str(file), "GHAPP_WEBHOOK_SECRET": "s"}
    with pytest.raises(ConfigurationError, match=r"^GHAPP_PRIVATE_KEY_FILE: not a PEM private key"):
        read_credentials(environ, tmp_path)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["FIFO", "directory"])
def test_what_is_no_file_in_its_place_is_named_and_not_waited_for(tmp_path, make):
    make(tmp_path / "app.json")
    with pytest.raises(ConfigurationError) as raised:
        kept(tmp_path)
    assert str(raised.value) == f"GHAPP_STATE_DIR: {tmp_path / 'app.json'} is not a regular file; remove it"


def test_a_file_in_place_of_its_directory_is_named(tmp_path):
    (tmp_path / "state").touch()
    with pytest.raises(ConfigurationError, match=r"^GHAPP_STATE_DIR: \S+/state is not a directory$"):
        kept(tmp_path / "state")
