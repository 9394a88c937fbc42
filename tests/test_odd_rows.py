"""One odd row costs itself alone: each field of each shape that is read, over GitHub's own description."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from jsonschema import Draft202012Validator

from ghapp.cluster.watch_events import Listed
from ghapp.cluster.wire import ephemeralrunners, pods
from ghapp.credentials import SignInClient
from ghapp.decoding import LeftOutRows
from ghapp.errors import ClusterUnavailableError, GitHubUnavailableError
from ghapp.github import app, delivery_log, wire
from ghapp.github.checks import Checks
from ghapp.github.deliveries import decode, encode, parse
from ghapp.github.jobs import Jobs
from ghapp.github.response import GitHubResponse
from ghapp.github.runner_groups import read_runner_groups
from ghapp.github.user_authorization import UserAuthorization
from ghapp.installations.installation import Installation
from ghapp.report.check_run import Report
from ghapp.store.codec import CODECS
from jobs.deliveries.inbox import _folds, _job
from tests.cluster.shapes import encoded, ephemeral_runner, listed, pod
from tests.sandbox.openapi import _json_schema, description
from tests.support.odd_rows import MISSING, changed, changes, sample

HERE, EXAMPLES, ODD, OTHERS = "acme/api", settings(max_examples=120), 2, (1, 3)


class Answers:
    """A client of GitHub with one answer to everything."""

    installation = Installation(7, "acme", 1)

    def __init__(self, body):
        self._body, self.left_out = json.dumps(body).encode(), LeftOutRows()

    async def send(self, _method, _path, **_):
        return GitHubResponse(200, {}, self._body)


Result = Mapping[Any, Any]


class Reader(NamedTuple):
    """Reads a list: of which operation, the field that has its rows, and the result of each row by its number.

    `is_whole`: without one of its rows the list is no answer, because its rows are judged together. `open`: a field
    whose unknown members have a meaning.
    """

    path: str
    rows: str
    read: Callable[[Answers], Result]
    is_whole: bool = False
    open: str = ""


def awaited(read):
    return lambda client: asyncio.run(read(client))


def runners(client):
    page = wire.runner_page(client._body, client.left_out)
    assert len(page.runners) + len(page.unreadable) + page.unnamed == len((*OTHERS, ODD))
    return {each.id: each for each in page.runners} | dict.fromkeys(page.unreadable, "registered")


def installations(client):
    page = wire.installations(client._body, client.left_out)
    assert page.rows == len((*OTHERS, ODD))
    return {each.id: each for each in page.installations} | dict.fromkeys(page.unreadable, "installed")


async def jobs_of_run(client):
    return {each.job.id: each for each in await Jobs(client, HERE).of_run(1)}


async def annotations(client):
    return {(each.message or each.path).removeprefix("text-"): each for each in await Jobs(client, HERE).annotations(1)}


async def check_run(client):
    return {"found": await Checks(client, HERE).find("abc")}


async def groups(client):
    return {each.id: each for each in await read_runner_groups(client, "acme", (*OTHERS, ODD))}


async def failures(client):
    return {each.id: each for each in (await delivery_log.failed_attempts(client, 0.0)).attempts}


async def arrivals(client):
    return {each.guid.removeprefix("text-"): each for each in await app.latest_deliveries(client)}


class Reading(UserAuthorization):
    """A person's reads of one answer."""

    def __init__(self, client):
        super().__init__("https://github", "https://api", SignInClient("id", "secret"), client.left_out)
        self._answers = client

    async def _get(self, *_, **__):
        return self._answers._body


async def seen_installations(client):
    return {each: each for each in await Reading(client).installations("token")}


async def seen_repositories(client):
    return {each.name: each.name for each in await Reading(client).repositories("token", 1)}


READERS = {
    "runners": Reader("/orgs/{org}/actions/runners", "runners", runners),
    "installations": Reader("/app/installations", "", installations),
    "jobs of a run": Reader(
        "/repos/{owner}/{repo}/actions/runs/{run_id}/jobs", "jobs", awaited(jobs_of_run), True, "status"
    ),
    "annotations": Reader("/repos/{owner}/{repo}/check-runs/{check_run_id}/annotations", "", awaited(annotations)),
    "check runs": Reader("/repos/{owner}/{repo}/commits/{ref}/check-runs", "check_runs", awaited(check_run)),
    "runner groups": Reader("/orgs/{org}/actions/runner-groups", "runner_groups", awaited(groups)),
    "failed attempts": Reader("/app/hook/deliveries", "", awaited(failures)),
    "latest deliveries": Reader("/app/hook/deliveries", "", awaited(arrivals)),
    "a person's installations": Reader("/user/installations", "installations", awaited(seen_installations)),
    "a person's repositories": Reader(
        "/user/installations/{installation_id}/repositories", "repositories", awaited(seen_repositories)
    ),
}


def described(reader: Reader) -> Any:
    """The schema of one row."""
    answer = description()["paths"][reader.path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    return (answer["properties"][reader.rows] if reader.rows else answer)["items"]


def answer_of(reader, rows):
    return Answers({"total_count": len(rows), reader.rows: rows} if reader.rows else rows)


def is_described(reader, row):
    """True if the row is what GitHub describes."""
    schema = _json_schema(described(reader)) | {"components": _json_schema(description()["components"])}
    return Draft202012Validator(schema).is_valid(row)


@pytest.mark.parametrize("name", READERS)
def test_one_odd_row_of_a_list_costs_itself_alone(name):
    reader = READERS[name]
    first, row, last = (sample(described(reader), each) for each in (OTHERS[0], ODD, OTHERS[1]))
    plain = reader.read(answer_of(reader, [first, row, last]))

    @EXAMPLES
    @given(changes(row))
    def check(change):
        odd = changed(row, change)
        client = answer_of(reader, [first, odd, last])
        try:
            found = reader.read(client)
        except GitHubUnavailableError:
            assert reader.is_whole
            assert client.left_out.take()
            return
        others = {key: each for key, each in plain.items() if str(key).rpartition("-")[2] != str(ODD)}
        assert {key: each for key, each in found.items() if key in others} == others
        is_lacking = change.value in (None, MISSING)  # as of a server that has no such field
        is_understood = is_lacking or (isinstance(change.value, str) and change.path == (reader.open,))
        is_kept = is_understood and found.keys() == plain.keys()
        if found != plain and not is_kept and not is_described(reader, odd):
            assert client.left_out.take()

    check()


@pytest.mark.parametrize("name", READERS)
def test_an_odd_list_is_read_or_no_answer(name):
    """What is odd is around the rows: how many there are, or that there is a list at all."""
    reader = READERS[name]
    answer = answer_of(reader, [sample(described(reader), each) for each in (1, 2, 3)])
    whole = json.loads(answer._body)

    @EXAMPLES
    @given(changes({"whole": whole}, depth=2))
    def check(change):
        with suppress(GitHubUnavailableError):
            reader.read(Answers(changed({"whole": whole}, change).get("whole")))

    # Not of the rows themselves, on which one of these readers counts.
    if not isinstance(whole, list) and name not in ("runners", "installations"):
        check()


async def registration(client):
    return await app.registration(client)


async def hook(client):
    return await app.hook(client)


async def facts(client):
    return await Jobs(client, HERE).facts(1)


async def run_facts(client):
    return await Jobs(client, HERE).run_facts(1)


async def repository(client):
    checks = Checks(client, HERE)
    return await checks.default_branch(), await checks.is_private(), await checks.topics()


async def posted(client):
    return await Checks(client, HERE).create("abc", Report("title", "summary", "text", None, ()))


async def person(client):
    return await Reading(client).user("token")


ONE = {
    "a runner": ("/orgs/{org}/actions/runners/{runner_id}", "get", 200, lambda it: wire.runner(it._body, it.left_out)),
    "an installation": (
        "/app/installations/{installation_id}",
        "get",
        200,
        lambda it: wire.installation(it._body, it.left_out),
    ),
    "a token": (
        "/app/installations/{installation_id}/access_tokens",
        "post",
        201,
        lambda it: wire.installation_token(it._body),
    ),
    "the end of a job": (
        "/repos/{owner}/{repo}/actions/jobs/{job_id}",
        "get",
        200,
        lambda it: wire.job_end(it._body, it.left_out),
    ),
    "a job": ("/repos/{owner}/{repo}/actions/jobs/{job_id}", "get", 200, awaited(facts)),
    "a run": ("/repos/{owner}/{repo}/actions/runs/{run_id}", "get", 200, awaited(run_facts)),
    "a repository": ("/repos/{owner}/{repo}", "get", 200, awaited(repository)),
    "a check run": ("/repos/{owner}/{repo}/check-runs", "post", 201, awaited(posted)),
    "the App": ("/app", "get", 200, awaited(registration)),
    "its webhook": ("/app/hook/config", "get", 200, awaited(hook)),
    "a person": ("/user", "get", 200, awaited(person)),
}


@pytest.mark.parametrize("name", ONE)
def test_an_odd_answer_about_one_thing_is_read_or_no_answer(name):
    path, method, status, read = ONE[name]
    answer = description()["paths"][path][method]["responses"][str(status)]["content"]["application/json"]
    plain = sample(answer["schema"], 1)

    @EXAMPLES
    @given(changes(plain))
    def check(change):
        with suppress(GitHubUnavailableError):
            read(Answers(changed(plain, change)))

    check()


PAYLOADS = sorted((Path(__file__).parent / "github" / "payloads").glob("*.json"))
NOW = 1_795_176_000.0


@pytest.mark.parametrize("file", PAYLOADS, ids=[each.stem for each in PAYLOADS])
def test_an_odd_delivery_is_taken_with_what_can_be_read_of_it(file):
    """What it shows of the job and its runner can be recorded, whatever one of its fields is."""
    event, payload = file.stem.partition(".")[0], {"installation": {"id": 7}} | json.loads(file.read_bytes())
    plain = parse(event, json.dumps(payload).encode(), "application/json")
    assert plain.odd == ()

    @EXAMPLES
    @given(changes(payload))
    def check(change):
        delivery = parse(event, json.dumps(changed(payload, change)).encode(), "application/json")
        assert decode(encode(delivery)) == delivery
        is_lacking = change.value in (None, MISSING) or isinstance(change.value, dict)
        if not is_lacking and _lacks_more_than(plain, delivery):
            assert delivery.odd
        if (job := delivery.workflow_job) is not None:
            CODECS["job"].encode(_job(delivery, job, NOW))
            for fold in _folds([job], NOW).values():
                CODECS["runner"].encode(fold(None))

    check()


def _lacks_more_than(plain, found) -> bool:
    """True if a part that a delivery had is None in another one, at any depth."""
    if not isinstance(plain, msgspec.Struct):
        return plain is not None and found is None
    if found is None:
        return True
    names = (name for name in plain.__struct_fields__ if name != "step_facts")  # none of a job that ended otherwise
    return any(_lacks_more_than(getattr(plain, name), getattr(found, name)) for name in names)


def pods_and_objects(read, shape, count):
    first, row, last = (shape(metadata={"uid": str(each), "name": f"linux-{each}"}) for each in (1, 2, 3))
    plain = read(encoded(listed([first, row, last]))).items

    @EXAMPLES
    @given(changes(row, depth=5))
    def check(change):
        try:
            page = read(json.dumps(listed([first, changed(row, change), last])).encode())
        except ClusterUnavailableError:
            raise AssertionError(change) from None
        assert [page.items[0], page.items[-1]] == [plain[0], plain[-1]]
        assert len(page.items) + len(page.left_out) == count
        if len(page.items) < count and change.path != ("metadata",):
            listed_now = Listed(page.items, "1", None, page.left_out)
            assert listed_now.may_have("2") or change.path == ("metadata", "uid")
            assert listed_now.may_have("7") == (change.path == ("metadata", "uid"))

    check()


def test_an_odd_pod_of_a_list_costs_itself_alone_and_is_known_to_exist():
    pods_and_objects(pods.pods, pod, 3)


def test_an_odd_ephemeralrunner_of_a_list_costs_itself_alone_and_is_known_to_exist():
    pods_and_objects(ephemeralrunners.ephemeral_runners, ephemeral_runner, 3)
