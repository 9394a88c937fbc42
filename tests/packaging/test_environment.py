"""The environment has none of GitHub's models, which githubkit requires and ghapp never imports; all works without."""

from __future__ import annotations

import importlib
import importlib.metadata
import pkgutil

import githubkit_schemas
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import ghapp.github
from ghapp.decoding import LeftOutRows
from ghapp.github import wire
from ghapp.github.response import expect
from ghapp.github.transport import GitHubTransport, open_client
from ghapp.sandbox import SandboxConfig, SandboxServer
from tests.packaging import wheels

PREFIX = "githubkit-schemas-"


def test_no_models_are_installed():
    names = {canonicalize_name(each.metadata["Name"]) for each in importlib.metadata.distributions()}
    assert {name for name in names if name.startswith(PREFIX)} == set()
    assert {each.name for each in pkgutil.iter_modules(githubkit_schemas.__path__)} <= {"core", "latest"}


def test_all_that_what_is_installed_requires_is_installed_but_what_is_unused():
    """`make setup` installs what requirements.txt lists, and resolves nothing: it must fit the Python, also the first release of each."""
    here = {canonicalize_name(each.metadata["Name"]): each.version for each in importlib.metadata.distributions()}
    wanted = [Requirement(row) for each in importlib.metadata.distributions() for row in each.requires or []]
    wanted = [each for each in wanted if each.marker is None or each.marker.evaluate({"extra": ""})]
    names = {canonicalize_name(each.name): each.specifier for each in wanted}
    assert len(names) > 50
    assert names.keys() - here.keys() <= wheels.UNUSED
    assert [name for name in names.keys() & here.keys() if not names[name].contains(here[name], prereleases=True)] == []


@pytest.mark.parametrize(
    "module", [each.name for each in pkgutil.walk_packages(ghapp.github.__path__, "ghapp.github.")]
)
def test_each_module_of_the_adapter_can_be_imported(module):
    importlib.import_module(module)


async def test_the_app_authenticates_and_a_token_that_it_mints_reads_runners():
    with SandboxServer(SandboxConfig(quiet=True, ticking=False)) as github:
        async with open_client(github.api_url) as client:
            app = GitHubTransport.as_app(str(github.app.id), github.app.private_key_pem, github.api_url, client)
            listed = expect(await app.send("GET", "/app/installations"), "installations")
            (installation, *_) = wire.installations(listed, LeftOutRows()).installations
            path = f"/app/installations/{installation.id}/access_tokens"
            token = wire.installation_token(expect(await app.send("POST", path), path))
            answer = await app.with_token(token.secret).send("GET", f"/orgs/{installation.org}/actions/runners")
            assert wire.runner_page(expect(answer, "runners"), LeftOutRows()).total > 0
            assert (await GitHubTransport.anonymous(github.api_url, client).send("GET", "/meta")).status in (200, 404)
