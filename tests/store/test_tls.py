"""Redis with TLS and an ACL, as SECURITY.md requires. The installed server may lack TLS, so a proxy terminates TLS."""

from __future__ import annotations

import contextlib
import datetime as dt
import ipaddress
import socket
import socketserver
import ssl
import threading

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from redis.exceptions import ConnectionError as NoConnectionError

from ghapp.addresses import redis_url
from ghapp.errors import StoreUnavailableError
from ghapp.store.connect import connect, connect_sync
from ghapp.store.schedule import Schedule
from tests.store.test_acl import rules
from tests.support.local_redis import embedded_redis


def certificate(folder, name):
    """A self-signed certificate for 127.0.0.1, which is its own authority; returns the paths of its two files."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, secret = folder / f"{name}.pem", folder / f"{name}.key"
    pem.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    secret.write_bytes(key.private_bytes(*form))
    return pem, secret


class ForwardingHandler(socketserver.BaseRequestHandler):
    """Terminates TLS for one connection, and forwards its bytes to a Unix socket."""

    def handle(self):
        with (
            contextlib.suppress(OSError),
            self.server.context.wrap_socket(self.request, server_side=True) as theirs,
            socket.socket(socket.AF_UNIX) as ours,
        ):
            ours.connect(self.server.socket_path)
            back = threading.Thread(target=copy, args=(ours, theirs), daemon=True)
            back.start()
            copy(theirs, ours)
            back.join(10)


def copy(source, target):
    with contextlib.suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def behind_tls(socket_path, pem, secret):
    """Opens a TLS port on 127.0.0.1 in front of a Unix socket."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), ForwardingHandler) as server:
        server.daemon_threads, server.socket_path = True, socket_path
        server.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        server.context.load_cert_chain(pem, secret)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join(10)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """The port, the certificate that it uses, and another certificate."""
    folder = tmp_path_factory.mktemp("tls")
    pem, secret = certificate(folder, "redis")
    stranger, _ = certificate(folder, "stranger")
    with embedded_redis(folder / "redis", durable=False) as url:
        admin = connect_sync(url)
        admin.execute_command("ACL", "SETUSER", "default", "off")
        admin.execute_command("ACL", "SETUSER", "ghapp", "on", ">hush", *rules())
        admin.close()
        with behind_tls(url.removeprefix("unix://"), pem, secret) as port:
            yield port, pem, stranger


def url_of(port, pem, password="hush"):
    environ = {"GHAPP_REDIS_URL": f"rediss://ghapp:{password}@127.0.0.1:{port}/0?ssl_ca_certs={pem}"}
    return redis_url(environ)


async def test_the_stores_and_rq_work_behind_tls_as_a_user_with_few_rights(guarded):
    port, pem, _ = guarded
    redis, queue_redis = connect(url_of(port, pem)), connect_sync(url_of(port, pem))
    await Schedule(redis).add(7, 1.0)
    assert await Schedule(redis).next(7) == 1.0
    assert queue_redis.set("ghapp:probe", b"", px=1000) is True
    await redis.aclose()
    queue_redis.close()


async def test_a_server_without_a_trusted_certificate_gets_no_request(guarded):
    port, _, stranger = guarded
    async with connect(url_of(port, stranger)) as redis:
        with pytest.raises(StoreUnavailableError, match="CERTIFICATE_VERIFY_FAILED"):
            await redis.ping()
    with pytest.raises(NoConnectionError, match="CERTIFICATE_VERIFY_FAILED"):
        connect_sync(url_of(port, stranger)).ping()


async def test_a_wrong_password_and_no_user_at_all_are_refused(guarded):
    port, pem, _ = guarded
    for url in (url_of(port, pem, password="loud"), f"rediss://127.0.0.1:{port}/0?ssl_ca_certs={pem}"):
        async with connect(url) as redis:
            with pytest.raises(StoreUnavailableError):
                await redis.ping()
