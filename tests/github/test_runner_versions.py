"""GitHub's dates of one version of the runner."""

from __future__ import annotations

import pytest

from ghapp.errors import GitHubError, GitHubUnavailableError
from ghapp.github.runner_versions import read_end_dates
from ghapp.versions.lifetime import DatesAnswer
from tests.github.one_answer import OneAnswer

AT, END = "2026-11-05T08:04:55Z", 1_793_865_895.0


async def answered(status=200, version="2.336.0", **body):
    return await read_end_dates(OneAnswer(status, {"runner_version": version} | body), "/orgs/acme", "2.336.0")


async def test_one_version_is_one_call():
    client = OneAnswer(200, {"runner_version": "2.336.0", "runtime_deprecates_at": AT})
    await read_end_dates(client, "/repos/acme/api", "2.336.0")
    assert client.sent == [("GET", "/repos/acme/api/actions/runners/deprecations/2.336.0", {})]


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ({"runtime_deprecates_at": AT}, DatesAnswer(END, True)),
        ({"runtime_deprecates_at": None}, DatesAnswer(None, True)),
        ({"runtime_deprecates_at": None, "registration_deprecates_at": AT}, DatesAnswer(None, True, END, True)),
        ({"runtime_deprecates_at": AT, "registration_deprecates_at": None}, DatesAnswer(END, True, None, True)),
        ({}, DatesAnswer()),
        ({"runtime_deprecates_at": "soon", "registration_deprecates_at": AT}, DatesAnswer(None, False, END, True)),
        ({"runtime_deprecates_at": "2026-11-05T08:04:55"}, DatesAnswer()),
        ({"runtime_deprecates_at": 0}, DatesAnswer()),
    ],
)
async def test_a_date_that_is_missing_or_odd_is_not_reported_and_null_is_no_date_yet(body, found):
    assert await answered(**body) == found


async def test_an_odd_date_is_named():
    client = OneAnswer(200, {"runner_version": "2.336.0", "runtime_deprecates_at": "soon"})
    await read_end_dates(client, "/orgs/acme", "2.336.0")
    ((kind, (count, odd)),) = client.left_out.take().items()
    assert (kind, count, odd.field) == ("runner-version", 1, "runtime_deprecates_at")


async def test_a_404_reports_nothing():
    assert await answered(404) is None


@pytest.mark.parametrize("version", ["2.335.0", "", 7, None])
async def test_an_answer_about_another_version_is_none(version):
    with pytest.raises(GitHubUnavailableError):
        await answered(version=version, runtime_deprecates_at=AT)


async def test_a_refusal_is_none_either():
    with pytest.raises(GitHubError):
        await answered(422)
