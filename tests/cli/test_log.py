"""No log line contains a secret: read from the standard error of a real process."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from ghapp.log import redact

SECRETS = [
    "ghs_16C7e42F292c6912E7710c838347Ae178B4a",
    "github_pat_11AAAAAAA0abcdefghijklmnop",
    "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    "ghapp_Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4",
    "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiIxIn0.c2lnbmF0dXJl",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\n-----END RSA PRIVATE KEY-----",
]
PROGRAM = """
import logging, sys
from ghapp import log
secret = sys.argv[1]
log.configure(sys.argv[2])
log.logger("t").warning(f"failed with {secret}", why=f"because of {secret}", org="acme", body=b"payload")
logging.getLogger("another.library").warning("failed with %s", secret)
try:
    raise ValueError(secret)
except ValueError:
    log.logger("t").exception("broke")
"""


def describe_pod(secret, log_format):
    words = [sys.executable, "-c", PROGRAM, secret, log_format]
    return subprocess.run(words, capture_output=True, text=True, check=True).stderr


def lines_of(secret):
    return [json.loads(line) for line in describe_pod(secret, "json").splitlines()]


@pytest.mark.parametrize("secret", SECRETS)
def test_a_traceback_on_a_terminal_is_redacted_too(secret):
    found = describe_pod(secret, "console")
    assert "Traceback" in found
    assert "[redacted]" in found
    assert secret not in found


@pytest.mark.parametrize("secret", SECRETS)
def test_text_that_looks_like_a_secret_is_redacted_anywhere_in_a_line(secret):
    lines = lines_of(secret)
    assert [line["event"].split()[0] for line in lines] == ["failed", "failed", "broke"]
    assert (lines[0]["org"], lines[0]["body"]) == ("acme", "7 bytes")
    found = json.dumps(lines)
    assert "[redacted]" in found
    assert secret not in found
    assert secret.replace("\n", "\\n") not in found
    assert secret.replace("\n", "\\\\n") not in found


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("+ ./config.sh --token AABF3JGZDX3P5PMEXLND6TS6FCWO6 --url x", "+ ./config.sh --token [redacted] --url x"),
        ("+ ./run.sh --jitconfig=eyJhZ2VudCI6IjEifQ==", "+ ./run.sh --jitconfig=[redacted]"),
        ("a --token of love", "a --token [redacted] love"),
        ("--tokens 3", "--tokens 3"),
    ],
)
def test_registration_tokens_of_an_entrypoint_are_redacted(line, found):
    assert redact(line) == found


def test_a_password_in_a_url_is_redacted():
    line = lines_of("rediss://worker:hunter2@redis:6379/0")[0]
    assert line["why"] == "because of rediss://[redacted]@redis:6379/0"
