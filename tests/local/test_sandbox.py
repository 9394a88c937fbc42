"""The environment of `ghapp up --sandbox`: nothing of the caller's deployment."""

from __future__ import annotations

import pytest

from ghapp.local.sandbox import isolated_environment
from ghapp.settings.settings import VARIABLES

HARMLESS = ["GHAPP_LISTEN", "GHAPP_LOG_FORMAT"]


@pytest.mark.parametrize("name", [name for name in VARIABLES if name not in HARMLESS])
def test_no_variable_of_a_deployment_reaches_it(name):
    assert name not in isolated_environment({name: "theirs"})


@pytest.mark.parametrize(
    "name",
    [
        "KUBECONFIG",
        "KUBERNETES_SERVICE_HOST",
        "KUBERNETES_SERVICE_PORT",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "http_proxy",
        "https_proxy",
        "all_proxy",
        "no_proxy",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
    ],
)
def test_no_cluster_proxy_or_certificate_of_the_machine_reaches_it(name):
    assert isolated_environment({name: "theirs"}) == {"NO_PROXY": "*"}


def test_a_list_of_exceptions_becomes_all_addresses():
    assert isolated_environment({"NO_PROXY": "theirs"}) == {"NO_PROXY": "*"}


@pytest.mark.parametrize("name", [*HARMLESS, "PATH", "HOME", "TMPDIR", "LANG", "GHAPP_MISSPELT"])
def test_what_is_of_the_terminal_reaches_it_and_so_does_a_misspelt_variable_to_be_refused(name):
    assert isolated_environment({name: "ours"}) == {name: "ours", "NO_PROXY": "*"}
