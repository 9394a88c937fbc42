"""The repositories that a person may read: all pages of them, and no more than a bound."""

from __future__ import annotations

import pytest

from ghapp.credentials import SignInClient
from ghapp.errors import GitHubUnavailableError, UnauthorizedError
from ghapp.github import user_authorization
from ghapp.github.user_authorization import UserAuthorization
from ghapp.sandbox import OrgConfig, PoolConfig, SandboxConfig, SandboxServer
from tests.sandbox.clients import authorized, exchange

NAMES = tuple(f"r{number:03}" for number in range(250))


@pytest.fixture(scope="module")
def github():
    orgs = (OrgConfig(pools=(PoolConfig(name="linux", size=1),), repositories=("api", *NAMES)),)
    with SandboxServer(SandboxConfig(orgs=orgs, quiet=True, ticking=False)) as server:
        yield server


@pytest.fixture
def authorization(github):
    yield UserAuthorization(github.url, github.api_url, SignInClient(github.app.client_id, github.app.client_secret))
    github.control.no_faults()


@pytest.fixture
def read(github, authorization):
    """The names of the repositories that a person reads."""

    async def run(login="mona"):
        token = exchange(github, authorized(github, login)["code"])["access_token"]
        found = await authorization.repositories(token, github.installation_id())
        return [each.name.removeprefix("acme/") for each in found]

    return run


async def test_all_pages_are_read_in_order(read):
    assert await read() == ["api", *NAMES]
    assert await read("olga") == ["api"]
    assert await read("sam") == []


async def test_repositories_that_a_person_administers_are_known(github, authorization):
    async def administered(login):
        token = exchange(github, authorized(github, login)["code"])["access_token"]
        return [
            each.name for each in await authorization.repositories(token, github.installation_id()) if each.is_admin
        ]

    assert (await administered("mona"))[:2] == ["acme/api", "acme/r000"]
    assert await administered("lisa") == []


async def test_no_more_than_a_bound_is_read(read, monkeypatch):
    monkeypatch.setattr(user_authorization, "MOST_PAGES", 2)
    assert await read() == ["api", *NAMES[:199]]


@pytest.mark.parametrize(("status", "error"), [(401, UnauthorizedError), (502, GitHubUnavailableError)])
async def test_no_answer_is_an_error_and_not_fewer_repositories(github, read, status, error):
    github.control.fault(match=r"/repositories$", status=status)
    with pytest.raises(error):
        await read()


@pytest.mark.parametrize("status", [403, 404])
async def test_without_access_there_are_none(github, read, status):
    github.control.fault(match=r"/repositories$", status=status)
    assert await read() == []


async def test_who_manages_an_organization_is_asked_by_its_id(github, authorization):
    """An outside collaborator who creates an organization with the old name of a renamed one does not manage it."""
    token = exchange(github, authorized(github, "mona")["code"])["access_token"]
    acme = github.world.orgs["acme"].id
    github.control.rename("acme", "acme-two")
    try:
        assert await authorization.manages(token, acme)
        assert not await authorization.manages(token, acme + 1)
    finally:
        github.control.rename("acme-two", "acme")
