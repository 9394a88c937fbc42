"""The doctor's findings about versions of the runner."""

from __future__ import annotations

import pytest

from ghapp.doctor.finding import FindingStatus
from ghapp.installations.installation import Installation
from ghapp.runners.store import Runners
from ghapp.settings import Settings
from ghapp.store.stores import stores_over
from ghapp.versions.doctor import check_versions
from ghapp.versions.lifetime import DAY, WARNING_SECONDS, EndDates
from tests.rules.builders import NOW, online

ACME = Installation(7, "acme", 1)


@pytest.mark.parametrize(
    ("ends_in", "statuses"),
    [
        (None, []),
        (WARNING_SECONDS + 1, []),
        (WARNING_SECONDS, [FindingStatus.WARNING]),
        (-DAY, [FindingStatus.WRONG]),
    ],
)
async def test_a_version_that_ends_within_a_week_is_a_warning_and_one_that_has_ended_is_wrong(redis, ends_in, statuses):
    stores = stores_over(redis)
    await Runners(redis).revise(ACME.id, {1: lambda _: online(1, version="2.335.1")})
    dates = EndDates(NOW, None if ends_in is None else NOW + ends_in, is_known=True)
    await stores.runner_versions.put(ACME.id, {"2.335.1": dates})
    found = await check_versions(Settings.read({}), stores, ACME, NOW)
    assert [each.status for each in found] == statuses
    assert all(each.fix == "see `ghapp versions --org acme` for what to do" for each in found)
