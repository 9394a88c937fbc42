"""The API with three kinds of scopes side by side, whose runners have the same ids and names."""

from __future__ import annotations

import json
import re
from urllib.parse import quote, unquote

import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from starlette.routing import Match

from ghapp.addresses import NO_SUCH_ADDRESS
from ghapp.installations.installation import Installation, enterprise_scope, repository_scope
from ghapp.installations.scope_paths import ScopePaths, path_segment
from ghapp.installations.store import Installations
from ghapp.queue.jobs import JobName
from ghapp.runners.evidence import Registration, Survey
from ghapp.runners.observations import SeenBy, granted, registration_seen
from ghapp.runners.store import Runners
from ghapp.store.tokens import Tokens
from ghapp.web.openapi import OPERATIONS
from ghapp.web.pages.docs import EXAMPLES
from tests.web.conftest import INSTALLATION, NOW, served

ACME = Installation(INSTALLATION, "acme", 1)
REPOSITORIES = ("api", "runners", ".github", "-x", "jobs")
RECORDS = [repository_scope(ACME, 71 + at, name, f"acme/{name}") for at, name in enumerate(REPOSITORIES)]
RECORDS += map(enterprise_scope, ("acme-corp", "runners"))
SCOPES = {"acme": INSTALLATION, **{each.org: each.id for each in RECORDS}}
AMBIGUOUS = {"acme/runners", "acme/jobs"}
"""Without an encoding these are paths of acme."""

IN_PATH = {"runner_id": "1", "name": "a", "runner_name": "a", "pod": "p", "pool": "linux", "shard": "pink"}
IN_PATH |= {"job_id": "1", "sweep_id": "1"}
OF_A_SCOPE = [each for each in OPERATIONS if "{org}" in each.path]
SECOND_WORDS = {each.path.split("/")[4] for each in OF_A_SCOPE}


def pool_of(address):
    """The pool of the runners of a scope, by which they differ."""
    return re.sub(r"\W", "-", address)


@pytest.fixture
async def tokens(redis, away):
    """Tokens of each scope; each has one online runner of the same id and name, in a pool of its own."""
    for each in RECORDS:
        await Installations(redis).put(each)
    for address, installation in SCOPES.items():
        labels = ("self-hosted", pool_of(address))
        seen = Registration(1, "a", "linux", True, False, labels, labels[1:], ephemeral=True)
        evidence = registration_seen(None, seen, NOW - 600, by=SeenBy.LIST)
        await Runners(redis).revise(installation, {1: lambda _, evidence=evidence: evidence})
        await Runners(redis).save_survey(installation, Survey(NOW - 3.2, 1))
    secrets = {each: (await Tokens(redis).create("t", (each,), ("admin",), NOW))[0] for each in SCOPES}
    return {each: {"authorization": f"Bearer {secret}"} for each, secret in secrets.items()}


def written(address):
    """The forms of an address in a path, each of which names this scope and no other."""
    forms = [path_segment(address), address.replace("/", "%2F"), address.replace("/", "%2f")]
    return forms if address in AMBIGUOUS else [*forms, address]


async def call(http, operation, form, headers):
    path = re.sub(r"{(\w+)}", lambda each: {**IN_PATH, "org": form}[each[1]], operation.path)
    fields = () if operation.body is None else operation.body.__struct_fields__
    body = {name: json.loads(EXAMPLES[name]) for name in fields} | ({"pool": None} if "pool" in fields else {})
    method = "HEAD" if operation.path.endswith("/events") else operation.method
    query = {"name": "a"} if operation.path.endswith("/runners/health") else {}
    return await http.request(method, path, params=query, headers=headers, json=body if fields else None)


def orgs_in(document):
    """All organizations that a JSON document names."""
    if isinstance(document, dict):
        yield from (value for name, value in document.items() if name == "org")
    for each in document.values() if isinstance(document, dict) else document if isinstance(document, list) else ():
        yield from orgs_in(each)


@pytest.mark.parametrize("operation", OF_A_SCOPE, ids=lambda each: f"{each.method} {each.path}")
async def test_every_operation_takes_each_form_of_each_address_and_the_token_of_that_scope_alone(
    http, tokens, operation
):
    for address in SCOPES:
        answers = [await call(http, operation, form, tokens[address]) for form in written(address)]
        for answer in answers:
            assert answer.status_code not in (401, 403, 405), answer.text
            assert NO_SUCH_ADDRESS not in answer.text, "the path is one of ours"
            if answer.is_success and answer.text:
                assert {*orgs_in(answer.json())} <= {address}
        if operation.method == "GET":
            assert len({answer.text for answer in answers}) == 1
        if operation.needs_token:
            others = [tokens[each] for each in SCOPES if each != address]
            refused = [await call(http, operation, path_segment(address), each) for each in others]
            assert {each.status_code for each in refused} == {403}


async def test_each_scope_has_its_own_runner_of_the_same_id_also_from_memory(http, tokens):
    for _ in range(2):
        for address in SCOPES:
            for form in written(address):
                document = (await http.get(f"/v1/orgs/{form}/runners/1/health", headers=tokens[address])).json()
                assert (document["org"], document["pool"]) == (address, pool_of(address))


async def test_what_is_reported_of_a_runner_concerns_its_scope_alone(http, tokens, redis):
    answer = await http.delete("/v1/orgs/acme~api/runners/1", headers=tokens["acme/api"])
    assert answer.status_code == 204
    states = {}
    for address in SCOPES:
        document = (
            await http.get(f"/v1/orgs/{path_segment(address)}/runners/1/health", headers=tokens[address])
        ).json()
        states[address] = document["state"]
    assert states == dict.fromkeys(SCOPES, "healthy") | {"acme/api": "retired"}


async def test_a_probe_is_answered_for_the_scope_in_its_path(http, tokens, asked, redis):
    """Runner c of acme is lost; acme/api and acme/runners have none of that name."""
    await Runners(redis).revise(INSTALLATION, {3: lambda known: granted(known, NOW, "event")})
    alive = {}
    for form in ("acme", "acme~api", "acme/api", "acme~runners", "acme%2Frunners"):
        alive[form] = (await http.get(f"/v1/orgs/{form}/runners/c/alive")).status_code
    assert alive == dict.fromkeys(alive, 200) | {"acme": 410}
    assert [(work, args) for work, args, _ in asked] == [(JobName.REMEDIATE, (INSTALLATION, 3))]


async def test_deliveries_are_for_admins_of_all_organizations_and_findings_for_those_of_all_scopes(http, tokens, redis):
    of_all = {"authorization": f"Bearer {(await Tokens(redis).create('t', tuple(SCOPES), ('admin',), NOW))[0]}"}

    async def statuses(headers):
        return [(await http.get(f"/v1/{path}", headers=headers)).status_code for path in ("deliveries/dead", "doctor")]

    assert await statuses(tokens["acme"]) == [200, 403]
    assert (await statuses(tokens["acme/api"]))[0] == 403
    assert (await statuses(of_all))[0] == 200
    assert 403 not in await statuses(of_all)
    assert (await http.get("/v1/orgs", headers=of_all)).json()["orgs"] == sorted(SCOPES)
    assert (await http.get("/v1/orgs", headers=tokens["acme/api"])).json()["orgs"] == ["acme/api"]


async def test_metrics_have_the_address_as_org_and_never_a_path(http, tokens):
    text = (await http.get("/metrics")).text
    counted = {
        (org, pool) for org, pool in re.findall(r'ghapp_runners{org="([^"]+)",pool="([^"]+)",state="healthy"} 1', text)
    }
    assert counted >= {(each, pool_of(each)) for each in SCOPES if each != "acme"}
    assert "~" not in text


async def test_a_scope_that_is_not_known_is_named_by_its_address(http, redis):
    secret, _ = await Tokens(redis).create("t", ("acme/web",), ("read",), NOW)
    answer = await http.get("/v1/orgs/acme~web/demand", headers={"authorization": f"Bearer {secret}"})
    assert answer.status_code == 404
    assert answer.json()["detail"].startswith("acme/web: ")
    assert "[[scopes]]" in answer.json()["detail"]


async def test_a_server_reads_encoded_slashes_as_part_of_a_name(http, tokens):
    """uvicorn's paths are decoded; this reads what was sent."""
    async with served(http._transport.app) as url, httpx.AsyncClient(base_url=url, trust_env=False) as client:
        for address in ("acme/api", "acme/runners", "enterprises/acme-corp"):
            for form in written(address):
                answer = await client.get(f"/v1/orgs/{form}/runners/1/health?x", headers=tokens[address])
                assert answer.json()["org"] == address


async def test_names_of_runners_keep_their_slashes(http, tokens, redis):
    labels = ("self-hosted", "odd")
    seen = Registration(8, "runners/x", "linux", True, False, labels, labels[1:], ephemeral=True)
    evidence = registration_seen(None, seen, NOW - 600, by=SeenBy.LIST)
    await Runners(redis).revise(SCOPES["acme/api"], {8: lambda _: evidence})
    for form in written("acme/api"):
        path = f"/v1/orgs/{form}/runners/runners%2Fx/alive"
        assert (await http.get(path)).status_code == 200
        found = await http.get(
            f"/v1/orgs/{form}/runners/health", params={"name": "runners/x"}, headers=tokens["acme/api"]
        )
        assert found.json()["runner_id"] == 8


login = st.from_regex(r"[A-Za-z0-9](-?[A-Za-z0-9]){0,38}", fullmatch=True).filter(lambda each: each != "enterprises")
name = st.from_regex(r"[A-Za-z0-9._-]{1,60}", fullmatch=True).filter(lambda each: each not in (".", ".."))
words = st.sampled_from(sorted(SECOND_WORDS))
address = st.one_of(
    login, st.builds("{}/{}".format, login, name | words), st.builds("enterprises/{}".format, login | words)
)

ROUTES = [(each, each.route(None, None)) for each in OF_A_SCOPE]
PATHS = ScopePaths(route.path for _, route in ROUTES)


def answering(method, raw_path):
    """The operations that a request reaches, each with the address of its scope."""
    readdressed = PATHS.readdressed(raw_path)
    path = unquote(raw_path if readdressed is None else readdressed.raw_path)
    found = [
        (operation, *route.matches({"type": "http", "method": method, "path": path})) for operation, route in ROUTES
    ]
    return [(operation, scope["path_params"]["org"]) for operation, match, scope in found if match is Match.FULL]


@given(address, st.sampled_from(OF_A_SCOPE))
@example("acme/runners", next(each for each in OF_A_SCOPE if each.path.endswith("/runners/health")))
@example("acme/.github", OF_A_SCOPE[0])
@example("acme/-x", OF_A_SCOPE[0])
@example("acme/a.b", OF_A_SCOPE[0])
def test_no_address_is_taken_for_another_path(address, operation):
    """Each request reaches its operation for that address; a plain one perhaps an organization's path, if it is one."""
    for form in (path_segment(address), quote(address, safe=""), address):
        raw_path = re.sub(r"{(\w+)}", lambda each, form=form: {**IN_PATH, "org": form}[each[1]], operation.path)
        reached = answering(operation.method, raw_path)
        second = address.partition("/")[2]
        is_ambiguous = form == address and second in SECOND_WORDS and not address.lower().startswith("enterprises/")
        if is_ambiguous:
            assert {org for _, org in reached} <= {address.partition("/")[0]}
        else:
            assert (operation, address) in reached
            assert {org for _, org in reached} == {address}
