"""The incidents over HTTP: which are listed, and bad input."""

from __future__ import annotations

import pytest

from ghapp.incidents.incident import LossEnd, RunnerLoss, incident_of
from ghapp.incidents.store import Incidents
from tests.web.conftest import INSTALLATION, NOW

PATH = "/v1/orgs/acme/incidents"


async def test_an_incident_that_is_over_is_listed_unless_open_ones_are_asked_for(http, redis):
    loss = RunnerLoss(70, "linux-70", "linux", NOW - 90, end=LossEnd.RETURNED, ended_at=NOW - 30)
    await Incidents(redis).revise(INSTALLATION, lambda _: {"a": incident_of("a", [loss], [])}, NOW)
    still_open, found = (await http.get(PATH)).json()["incidents"]
    assert (still_open["state"], still_open["lost"], still_open["ended"]) == ("open", 1, None)
    assert (found["id"], found["state"], found["began"], found["ended"]) == (
        "a",
        "healed",
        "2027-01-15T07:58:30Z",
        "2027-01-15T07:59:30Z",
    )
    assert (found["open"], found["fuse"], found["heal_seconds"]) == (0, None, None)
    for query in ({"open": "true"}, {"limit": 1}):
        assert (await http.get(PATH, params=query)).json()["incidents"] == [still_open]


@pytest.mark.parametrize(
    ("query", "named"), [({"open": "yes"}, "true or false"), ({"limit": "0"}, "1 to 1000"), ({"limit": "x"}, "limit")]
)
async def test_bad_input_is_400(http, query, named):
    answer = await http.get(PATH, params=query)
    assert (answer.status_code, named in answer.json()["detail"]) == (400, True)
