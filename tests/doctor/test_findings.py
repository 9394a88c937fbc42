"""What each value is judged to be, and what to do about it."""

import pytest

from ghapp.doctor import findings
from ghapp.doctor.findings import Status
from ghapp.github.app import Delivered, Hook, Registration
from ghapp.health.evidence import Survey
from ghapp.health.fuse import Fuse, FuseReason, Position
from ghapp.health.installation import NEEDED, Installation
from ghapp.health.posting import Setback
from ghapp.settings import Settings
from ghapp.store.fuses import Pause

NOW = 1_790_000_000.0
APP = Registration("runners", "acme", NEEDED, ("workflow_job",), "https://github.com/apps/runners")
SIGNED = Hook("https://ghapp.example/webhook", is_signed=True)
ARRIVED = [Delivered(NOW, 202, "OK")] * 5
FAILED = Delivered(NOW, 503, "Service Unavailable")


def worst(found):
    order = [Status.OK, Status.WARNING, Status.WRONG]
    return max((each.status for each in found), key=order.index, default=Status.OK)


def test_whatever_is_not_well_comes_with_what_to_do():
    settings = Settings.read({"GHAPP_STATE_DIR": "/nowhere"})
    found = [
        *findings.of_configuration(settings, {}),
        *findings.of_redis("redis://redis:6379", 1.0, {}, "allkeys-lru"),
        *findings.of_roles(0, [], {"urgent": 3}, 2),
        *findings.of_inbox(3, 1),
        *findings.of_app(APP._replace(permissions={}, events=()), 90),
        *findings.of_hook(Hook("", is_signed=False), [FAILED], None),
        *findings.of_installation(Installation(1, "acme", 1), "https://github.com", has_pool=False),
        *findings.of_sweeps("acme", Survey(), 60, 0, NOW),
        *findings.of_report("acme", "acme/.github", Setback("acme/.github", "permission-missing", NOW)),
        findings.of_url("acme", "linux", "http://c", "Connection refused"),
    ]
    assert len(found) > 15
    assert all((each.fix is None) is (each.status is Status.OK) for each in found)


@pytest.mark.parametrize(
    ("skew", "status"),
    [(30, "ok"), (30.1, "warning"), (-30.1, "warning"), (60, "warning"), (60.1, "wrong"), (-90, "wrong")],
)
def test_a_clock_that_is_off_by_more_than_a_minute_is_wrong(skew, status):
    (clock,) = [each for each in findings.of_app(APP, skew) if each.name == "clock"]
    assert clock.status == status


@pytest.mark.parametrize(
    ("app", "name"),
    [
        (APP._replace(permissions={**NEEDED, "checks": "read"}), "permissions"),
        (APP._replace(events=()), "events"),
    ],
)
def test_an_app_that_asks_for_too_little_is_wrong(app, name):
    assert [each.name for each in findings.of_app(app, 0) if each.status is Status.WRONG] == [name]


@pytest.mark.parametrize(
    ("hook", "deliveries", "public_url", "status"),
    [
        (SIGNED, ARRIVED, "https://ghapp.example", "ok"),
        (SIGNED, ARRIVED, None, "ok"),
        (SIGNED, ARRIVED, "https://other.example", "wrong"),
        (Hook("https://example.com/webhook", is_signed=True), ARRIVED, None, "warning"),
        (SIGNED._replace(is_signed=False), ARRIVED, None, "wrong"),
        (SIGNED, [], None, "warning"),
        (SIGNED, [*ARRIVED, FAILED], None, "warning"),
        (SIGNED, [FAILED], None, "wrong"),
    ],
    ids=["well", "no public url", "elsewhere", "nowhere", "unsigned", "nothing came", "one failed", "all failed"],
)
def test_deliveries_must_come_here_signed(hook, deliveries, public_url, status):
    assert worst(findings.of_hook(hook, deliveries, public_url)) == status


@pytest.mark.parametrize(
    ("url", "info", "policy", "status"),
    [
        ("redis://127.0.0.1", {"aof_enabled": 1}, "noeviction", "ok"),
        ("unix:///run/redis.sock", {"aof_enabled": 1}, "noeviction", "ok"),
        ("rediss://redis", {"aof_enabled": 1}, "noeviction", "ok"),
        ("redis://redis", {"aof_enabled": 1}, "noeviction", "warning"),
        ("rediss://redis", {"aof_enabled": 0}, "noeviction", "warning"),
        ("rediss://redis", {"aof_enabled": 1}, "allkeys-lru", "warning"),
        ("rediss://redis", {"aof_enabled": 1}, "", "warning"),
    ],
)
def test_redis_keeps_what_it_is_given_and_is_not_overheard(url, info, policy, status):
    assert worst(findings.of_redis(url, 1.0, info, policy)) == status


@pytest.mark.parametrize(
    ("survey", "status"),
    [
        (Survey(NOW - 180, 9), "ok"),
        (Survey(NOW - 181, 9), "warning"),
        (Survey(), "warning"),
        (Survey(NOW, 9, NOW, "PermissionMissing"), "wrong"),
    ],
    ids=["three intervals ago", "longer", "never", "failing"],
)
def test_an_installation_is_looked_at(survey, status):
    assert worst(findings.of_sweeps("acme", survey, 60, 100, NOW)) == status


@pytest.mark.parametrize(
    ("installation", "has_pool", "status"),
    [
        (Installation(1, "acme", 1, NEEDED), True, "ok"),
        (Installation(1, "acme", 1, NEEDED), False, "warning"),
        (Installation(1, "acme", 1, {}), True, "wrong"),
        (Installation(1, "acme", 1, NEEDED, suspended=True), True, "wrong"),
    ],
    ids=["all granted", "no pool", "nothing granted", "suspended"],
)
def test_an_installation_lets_the_app_do_its_work(installation, has_pool, status):
    found = findings.of_installation(installation, "https://github.com", has_pool=has_pool)
    assert worst(found) == status
    if status == "wrong":
        assert "https://github.com/organizations/acme/settings/installations/1" in found[0].fix


def test_what_a_person_has_to_resume_says_how():
    stopped = Fuse(Position.STOPPED, reason=FuseReason.BATCH_NEVER_ONLINE)
    found = findings.of_remediation("acme", {"gpu": stopped, "mac": Fuse()}, {"*": Pause("mona", "a move", NOW)})
    assert [(each.name, each.status) for each in found] == [("fuse gpu", "wrong"), ("pause *", "warning")]
    assert "`ghapp resume acme --pool gpu`" in found[0].fix
    assert found[1].fix == "`ghapp resume acme`"
    assert "mona" in found[1].said


def test_an_org_that_is_configured_and_not_installed_is_named(tmp_path):
    policy = tmp_path / "ghapp.toml"
    policy.write_text('[[pools]]\norg = "Acme"\nname = "linux"\n[orgs.globex.sweep]\nconcurrency = 2\n')
    settings = Settings.read({"GHAPP_CONFIG": str(policy), "GHAPP_STATE_DIR": "/nowhere"})
    assert [each.org for each in findings.of_unknown_orgs(settings, ["acme"])] == ["globex"]
    assert [each.org for each in findings.of_unknown_orgs(settings, [])] == ["Acme", "globex"]
