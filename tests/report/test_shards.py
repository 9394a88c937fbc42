"""The shards of a pool, beside its totals."""

import pytest

from ghapp.gate.active_shard import Role
from ghapp.report.fleet import by_pool
from ghapp.report.shards import shards_of, shards_text
from ghapp.settings import PoolSettings
from tests.report.fleets import fleet_of
from tests.rules.builders import NOW, lost, online, present

RULE = PoolSettings("acme", "rollout", ("rollout",), shard_label="shard")
ROLES = {"purple": Role.ACTIVE, "pink": Role.INACTIVE}


def of(shard, number, evidence=online, **changes):
    labels = ("rollout", f"shard:{shard}")
    return evidence(number, labels=labels, custom_labels=labels, **changes)


def text_of(*runners, roles=ROLES, rule=RULE):
    fleet = fleet_of(*runners, rules=(rule,), shard_roles={} if roles is None else {"rollout": roles})
    (pool,) = by_pool(fleet, NOW)
    return shards_text(shards_of(fleet, pool))


BUSY = [of("purple", number, busy=True) for number in range(4)]


@pytest.mark.parametrize(
    ("runners", "text"),
    [
        (
            [*BUSY, of("Pink", 5), of("pink", 6, present), of("pink", 7, lost)],
            "purple (active): 4 online, 0 idle · pink (inactive): 1 of 3 online, 1 idle",
        ),
        ([of("pink", 5), *BUSY[:1]], "purple (active): 1 online, 0 idle · pink (inactive): 1 online, 1 idle"),
        ([of("blue", 5, job_id=7, job_started_at=NOW - 60)], "blue (unknown): 1 online, 0 idle"),
        ([online(5, labels=("rollout",), custom_labels=("rollout",))], ""),
    ],
    ids=["a busy one and an idle one", "the active one first", "a job is running", "no shard"],
)
def test_each_shard_has_its_role_and_its_online_and_idle_runners(runners, text):
    assert text_of(*runners) == text


def test_a_pool_without_shards_has_none():
    rule = PoolSettings("acme", "rollout", ("rollout",))
    assert text_of(*BUSY, roles=None, rule=rule) == ""
