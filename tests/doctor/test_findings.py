"""The status and the fix of each of doctor's findings."""

from dataclasses import replace
from types import SimpleNamespace
from typing import get_args

import pytest

from ghapp.deaths.rerun import RerunRules
from ghapp.decoding import Kind
from ghapp.deliveries.doctor import WEB_STARTS_SECONDS, of_arrivals, of_gaps, of_hook, of_inbox
from ghapp.doctor.configuration import of_configuration
from ghapp.doctor.controllers import of_url
from ghapp.doctor.finding import FindingCounts, FindingStatus, ok, warning, wrong
from ghapp.doctor.github import of_app, of_clock, of_rejection, settings_page
from ghapp.doctor.left_out import LASTS_SECONDS, of_left_out
from ghapp.doctor.redis import MOST_NAMED, of_records, of_redis, of_writing
from ghapp.doctor.roles import STARTING_SECONDS, of_clocks, of_roles
from ghapp.doctor.runner import GROUPS
from ghapp.doctor.tokens import SOON_SECONDS, of_tokens
from ghapp.errors import Refusal, StoreRefusedError
from ghapp.github.app import AppRegistration, Delivered, HookConfig
from ghapp.installations.doctor import (
    of_budget,
    of_installation,
    of_pool_labels,
    of_remediation,
    of_report,
    of_report_owners,
    of_repository,
    of_reruns,
    of_sweeps,
    of_unknown_orgs,
)
from ghapp.installations.installation import NEEDED, Installation
from ghapp.leaks.doctor import of_tick
from ghapp.leaks.store import Tick
from ghapp.queue.jobs import Load
from ghapp.remediation.fuse import Fuse, FuseReason, Position
from ghapp.remediation.pause import Pause
from ghapp.report.check_run_state import PostFailure
from ghapp.runners.delivery_lag import MARGIN_SECONDS, DeliveryGap, GapCause
from ghapp.runners.evidence import Survey
from ghapp.runners.next_attempt import NextAttempt
from ghapp.settings import PoolSettings, Settings
from ghapp.store.left_out import LastLeftOut
from ghapp.store.quarantine import UnreadableRecord
from ghapp.store.tokens import Token
from ghapp.wording import time_of
from jobs.checks.publisher import CheckRunOutcome
from tests.rules.builders import MICROSECOND, online

NOW = 1_790_000_000.0
APP = AppRegistration("Runners", "runners", "acme", True, NEEDED, ("workflow_job",))
PAGE = "https://github.com/organizations/acme/settings/apps/runners"
SIGNED = HookConfig("https://ghapp.example/webhook", is_signed=True)
ARRIVED = [Delivered(str(number), NOW, 202, "OK") for number in range(5)]
REPLACED = "replacer = 'cloudevents'\nurl = 'http://c'\nsecret_env = 'SECRET'\n"
FAILED = Delivered("f", NOW, 503, "Service Unavailable")


def worst(found):
    order = [FindingStatus.OK, FindingStatus.WARNING, FindingStatus.WRONG]
    return max((each.status for each in found), key=order.index, default=FindingStatus.OK)


@pytest.mark.parametrize(
    ("load", "status", "text"),
    [
        (Load(2, {}, 0), FindingStatus.OK, "2 alive"),
        (Load(1, {}, 0, silent=2), FindingStatus.WARNING, "1 alive; 2 workers sent no heartbeat for 20 s"),
        (Load(0, {}, 0, silent=1), FindingStatus.WRONG, "no worker is alive: 1 worker sent no heartbeat for 20 s"),
        (Load(0, {}, 0), FindingStatus.WRONG, "no worker is alive"),
    ],
)
def test_a_worker_that_hangs_is_not_alive(load, status, text):
    found = of_roles(load, ["clock"])[0]
    assert (found.status, found.text) == (status, text)


def test_every_warning_and_failure_has_a_fix():
    settings = Settings.read({"GHAPP_STATE_DIR": "/nowhere"})
    found = [
        *of_configuration(settings, {}),
        *of_redis("redis://redis:6379", 1.0, {}, "allkeys-lru"),
        *of_writing(StoreRefusedError("MISCONF")),
        *of_records([UnreadableRecord("runner", "ghapp:7:runners", "1", NOW, b"x")]),
        *of_roles(Load(0, {"urgent": 3}, 2), []),
        *of_roles(Load(1, {}, 0, silent=1), []),
        *of_left_out([LastLeftOut("runner", "", "odd", NOW)], NOW),
        *of_clocks({"worker on a": 45.0}),
        *of_inbox(0, 1, has_come=False),
        *of_clock(90),
        *of_rejection("7", 0),
        *of_app(APP._replace(permissions={}, events=()), PAGE),
        *of_hook(HookConfig("", is_signed=False), None, PAGE),
        *of_arrivals([FAILED], PAGE),
        *of_installation(Installation(1, "acme", 1), "https://github.com", has_pool=False),
        *of_sweeps("acme", Survey(), 60, NOW),
        *of_budget("acme", 0),
        *of_report("acme", "acme/.github", PostFailure("acme/.github", "permission-missing", NOW)),
        of_url("acme", "linux", "http://c", "Connection refused"),
        of_url("acme", "mac", "https://c", "its certificate is not trusted: expired"),
    ]
    assert len(found) > 20
    assert all((each.fix is None) is (each.status is FindingStatus.OK) for each in found)


@pytest.mark.parametrize(
    ("outcome", "fix"),
    [
        (CheckRunOutcome.UNAVAILABLE, "nothing to do while GitHub does not answer"),
        (CheckRunOutcome.PERMISSION_MISSING, "the App needs checks: write"),
        (
            CheckRunOutcome.REFUSED,
            f"the App needs checks: write and access to the repository, and the repository needs a commit; the next try is at {time_of(NOW)}",
        ),
    ],
)
def test_a_report_that_github_did_not_take_lacks_no_permission(outcome, fix):
    (found,) = of_report("acme", "acme/.github", PostFailure("acme/.github", outcome.value, NOW, NOW - 60))
    assert found.text == f"not posted to acme/.github since {time_of(NOW - 60)}: {outcome.value}"
    assert found.fix.startswith(fix)


WELL, RISK, BAD = ok("redis", "a", "x"), warning("redis", "b", "x", "y"), wrong("redis", "c", "x", "y")


@pytest.mark.parametrize(
    ("findings", "text"),
    [
        ([], "0 checks of the set-up: all well; for the fleet see `ghapp runners`"),
        ([WELL], "1 check of the set-up: all well; for the fleet see `ghapp runners`"),
        ([WELL] * 23, "23 checks of the set-up: all well; for the fleet see `ghapp runners`"),
        ([WELL, RISK], "1 warning of 2 checks of the set-up"),
        ([BAD, WELL, WELL], "1 problem of 3 checks of the set-up"),
        ([BAD, RISK, BAD, WELL], "2 problems, 1 warning of 4 checks of the set-up"),
    ],
)
def test_the_last_line_counts_the_checks(findings, text):
    assert str(FindingCounts.of(findings)) == text


@pytest.mark.parametrize(
    ("started", "status"),
    [
        (None, "warning"),
        (STARTING_SECONDS, "warning"),
        (STARTING_SECONDS - 0.1, "ok"),
        (0, "ok"),
        (-60, "ok"),
        (-60.1, "warning"),
    ],
)
def test_what_has_not_run_yet_is_no_problem_while_the_workers_have_just_started(started, status):
    started_at = None if started is None else NOW - started
    assert worst(of_sweeps("acme", Survey(), 60, NOW, started_at=started_at)) == status
    assert of_tick("acme", Tick(None, 0, 0, 0, 0), NOW, started_at).status == status


@pytest.mark.parametrize(("has_workers", "status"), [(True, "ok"), (False, "wrong")])
def test_credentials_may_be_with_the_workers_alone(has_workers, status):
    found = of_configuration(Settings.read({"GHAPP_STATE_DIR": "/nowhere"}), {}, has_workers=has_workers)
    assert [each.status for each in found if each.name == "credentials"] == [status]


@pytest.mark.parametrize(
    ("skew", "status"),
    [(30, "ok"), (30.1, "warning"), (-30.1, "warning"), (60, "warning"), (60.1, "wrong"), (-90, "wrong")],
)
def test_a_clock_that_is_off_by_more_than_a_minute_is_wrong(skew, status):
    (clock,) = of_clock(skew)
    assert clock.status == status


@pytest.mark.parametrize(("skew", "text"), [(90, "90 s behind"), (-90, "90 s ahead of")])
def test_a_wrong_clock_is_reported_as_ahead_or_behind(skew, text):
    assert of_clock(skew)[0].text == f"our clock is {text} GitHub's"


def test_a_refusal_is_attributed_to_the_key_only_if_the_clock_is_right():
    assert [(each.name, each.status) for each in of_rejection("7", 60)] == [("clock", "warning"), ("app", "wrong")]
    assert "of the same App" in of_rejection("7", 60)[1].fix
    assert [(each.name, each.status) for each in of_rejection("7", 61)] == [("clock", "wrong"), ("app", "wrong")]
    assert of_rejection("7", 61)[1].fix == "fix the clock first"


@pytest.mark.parametrize(
    ("app", "name"),
    [
        (APP._replace(permissions={**NEEDED, "checks": "read"}), "permissions"),
        (APP._replace(events=()), "events"),
    ],
)
def test_an_app_that_lacks_permissions_or_events_is_wrong(app, name):
    (wrong,) = [each for each in of_app(app, PAGE) if each.status is FindingStatus.WRONG]
    assert wrong.name == name
    assert f"{PAGE}/permissions" in wrong.fix


def test_the_address_of_an_apps_settings_depends_on_its_owner():
    assert settings_page(APP, "https://github.com") == PAGE
    theirs = APP._replace(owner="mona", is_of_organization=False)
    assert settings_page(theirs, "https://ghes.example") == "https://ghes.example/settings/apps/runners"


@pytest.mark.parametrize(
    ("hook", "public_url", "status"),
    [
        (SIGNED, "https://ghapp.example", "ok"),
        (SIGNED, None, "ok"),
        (SIGNED._replace(url="https://ghapp.example/webhook/"), "https://ghapp.example", "ok"),
        (SIGNED, "https://other.example", "wrong"),
        (SIGNED._replace(url="https://ghapp.example"), "https://ghapp.example", "wrong"),
        (SIGNED._replace(url="https://example.com/webhook"), "https://ghapp.example", "warning"),
        (SIGNED._replace(url=""), "https://ghapp.example", "warning"),
        (SIGNED._replace(url="https://example.com.acme.org/webhook"), None, "ok"),
        (SIGNED._replace(is_signed=False), None, "wrong"),
    ],
    ids=["ours", "no public url", "slash", "another host", "no path", "localhost", "no url", "placeholder", "unsigned"],
)
def test_the_webhook_must_have_our_address_and_a_secret(hook, public_url, status):
    assert worst(of_hook(hook, public_url, PAGE)) == status


def test_a_wrong_webhook_address_is_reported_with_the_right_address_and_the_settings_page():
    (found,) = of_hook(HookConfig("https://example.com/webhook", is_signed=True), "https://ghapp.example", PAGE)
    assert PAGE in found.fix
    assert "https://ghapp.example/webhook" in found.fix


@pytest.mark.parametrize(
    ("latest", "status", "text"),
    [
        (ARRIVED, "ok", "the last 5 arrived"),
        ([], "warning", "nothing in three days"),
        ([*ARRIVED, FAILED], "warning", "1 of the last 6 failed: 503 Service Unavailable"),
        ([FAILED], "wrong", "1 of the last 1 failed"),
        ([FAILED._replace(status=200), FAILED], "ok", "the last 1 arrived"),
        ([FAILED._replace(status=0, text="timed out"), FAILED], "wrong", "1 of the last 1 failed: 0 timed out"),
    ],
    ids=["all arrived", "no delivery", "one failed", "all failed", "redelivered", "failed twice"],
)
def test_a_delivery_counts_by_its_last_attempt(latest, status, text):
    (found,) = of_arrivals(latest, PAGE)
    assert found.status == status
    assert text in found.text


@pytest.mark.parametrize(
    ("lag", "dead", "has_come", "names"),
    [
        (0, 0, True, []),
        (3, 0, False, []),
        (0, 0, False, ["seen"]),
        (0, 1, True, ["given up"]),
    ],
)
def test_missing_and_dropped_deliveries_are_reported(lag, dead, has_come, names):
    found = of_inbox(lag, dead, has_come=has_come)
    assert [each.name for each in found if each.status is FindingStatus.WARNING] == names


@pytest.mark.parametrize(
    ("lag", "status"),
    [(10_000, "ok"), (10_001, "warning"), (99_999, "warning"), (100_000, "wrong"), (100_400, "wrong")],
)
def test_an_inbox_without_drains_is_reported(lag, status):
    assert worst(of_inbox(lag, 0, has_come=True)) == status


def test_the_finding_of_missing_deliveries_explains_their_effect():
    assert all(
        "replaced once too often" in each.fix for each in [*of_inbox(0, 0, has_come=False)[1:], *of_arrivals([], PAGE)]
    )


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
        ("rediss://redis", {}, "noeviction", "warning"),
        ("redis://u:p@[::1]:6379/0", {"aof_enabled": 1}, "noeviction", "ok"),
        ("redis://:p@127.0.0.9", {"aof_enabled": 1}, "noeviction", "ok"),
        ("redis+sentinel://localhost:1,127.0.0.1:2/s", {"aof_enabled": 1}, "noeviction", "ok"),
        ("redis+sentinel://u:p@localhost:1,b:2/s", {"aof_enabled": 1}, "noeviction", "warning"),
    ],
)
def test_redis_must_be_durable_and_encrypted_or_local(url, info, policy, status):
    found = of_redis(url, 1.0, info, policy)
    assert worst(found) == status
    assert "u:p" not in str(found)


@pytest.mark.parametrize(
    ("refusal", "text", "fix"),
    [
        (StoreRefusedError("", Refusal.REPLICA), "it is a replica", "name the primary"),
        (StoreRefusedError("", Refusal.MEMORY), "its memory is full", "raise its maxmemory"),
        (StoreRefusedError("", Refusal.PERMISSION), "its ACL user may not write", "~ghapp:*"),
        (StoreRefusedError("MISCONF disk is full"), "writes fail: MISCONF disk is full", "fix that"),
    ],
    ids=["a replica", "full", "not permitted", "no disk"],
)
def test_a_redis_that_rejects_writes_is_wrong_and_the_reason_is_reported(refusal, text, fix):
    (found,) = of_writing(refusal)
    assert found.status is FindingStatus.WRONG
    assert text in found.text
    assert fix in found.fix


def test_a_redis_that_accepts_writes_is_ok():
    assert worst(of_writing(None)) == "ok"


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
def test_a_missing_or_failing_sweep_is_reported(survey, status):
    assert worst(of_sweeps("acme", survey, 60, NOW)) == status


@pytest.mark.parametrize(("left", "status"), [(1, "ok"), (0, "warning")])
def test_a_spent_budget_is_reported(left, status):
    assert worst(of_budget("acme", left)) == status


@pytest.mark.parametrize(
    ("toml", "status"),
    [
        ("replacer = 'none'", "warning"),
        (REPLACED, "warning"),
        (f"{REPLACED}[remediation]\nmode = 'act'", "ok"),
        (f"{REPLACED}[remediation]\nmode = 'off'", "warning"),
        (f"{REPLACED}[remediation]\nmode = 'act'\n[orgs.acme.remediation]\nmode = 'dry-run'", "warning"),
    ],
    ids=["no replacer", "no mode", "acting", "off", "dry-run in one org"],
)
def test_missing_replacement_settings_are_reported(tmp_path, toml, status):
    policy = tmp_path / "ghapp.toml"
    policy.write_text(f"[[pools]]\norg = 'acme'\nname = 'linux'\nlabels = ['linux']\n{toml}\n")
    secret = "whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"
    environ = {"GHAPP_CONFIG": str(policy), "GHAPP_STATE_DIR": str(tmp_path), "SECRET": secret}
    found = of_configuration(Settings.read(environ), environ)
    assert found[0].text == str(policy)
    assert worst([each for each in found if each.name != "credentials"]) == status


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
def test_an_installation_must_grant_permissions_and_have_a_pool(installation, has_pool, status):
    found = of_installation(installation, "https://github.com", has_pool=has_pool)
    assert worst(found) == status
    if status == "wrong":
        assert "https://github.com/organizations/acme/settings/installations/1" in found[0].fix


@pytest.mark.parametrize(
    ("modes", "level", "status"),
    [
        (["off"], "read", None),
        ([], "write", None),
        (["button"], "read", "ok"),
        (["button"], "write", "ok"),
        (["off", "auto"], "read", "wrong"),
        (["auto"], "write", "ok"),
    ],
)
def test_the_permission_for_re_runs_is_required_only_in_mode_auto(tmp_path, modes, level, status):
    pools = [PoolSettings("acme", f"p{at}", ("x",), rerun=RerunRules(mode)) for at, mode in enumerate(modes)]
    settings = replace(Settings.read({"GHAPP_STATE_DIR": str(tmp_path)}), pools=tuple(pools))
    found = of_reruns(Installation(1, "acme", 1, {"actions": level}), settings)
    assert [each.status for each in found] == ([] if status is None else [status])


def test_a_stopped_fuse_and_a_pause_are_reported_with_the_resume_command():
    stopped = Fuse(Position.STOPPED, reason=FuseReason.BATCH_NEVER_ONLINE)
    found = of_remediation("acme", {"gpu": stopped, "mac": Fuse()}, {"*": Pause("mona", "a move", NOW)})
    assert [(each.name, each.status) for each in found] == [
        ("fuse gpu", "wrong"),
        ("pause of all pools", "warning"),
    ]
    assert "`ghapp resume acme --pool gpu`" in found[0].fix
    assert found[1].fix == "`ghapp resume acme`"
    assert "mona" in found[1].text


@pytest.mark.parametrize(("paused", "is_waiting"), [("gpu", False), ("*", False), ("mac", True)])
def test_a_proving_fuse_goes_on_by_itself_only_while_nothing_is_paused(paused, is_waiting):
    found = of_remediation("acme", {"gpu": Fuse(Position.PROVING)}, {paused: Pause("mona", "a move", NOW)})
    assert found[0].fix.startswith("wait: ") is is_waiting


def test_the_fuse_of_the_installation_is_reported_with_the_reason_why_it_tripped():
    reasons = {"reason": FuseReason.BATCH_NEVER_ONLINE, "tripped_for": FuseReason.MASS_LOSS}
    (found,) = of_remediation("acme", {"*": Fuse(Position.STOPPED, since=NOW, **reasons)}, {})
    assert (found.name, found.status) == ("fuse of all pools", "wrong")
    assert found.fix.endswith("`ghapp resume acme`")
    assert "MassLoss" in found.text
    assert "BatchNeverOnline" in found.text


@pytest.mark.parametrize(
    ("survey", "attempt", "status", "text"),
    [
        (Survey(NOW, 5), NextAttempt("", None, NOW + 60), "ok", "5 runners"),
        (Survey(NOW - 181, 5), NextAttempt("", None, NOW + 60), "warning", "next attempt due"),
        (Survey(NOW, 5, NOW, "RateLimited"), NextAttempt("RateLimited", NOW, NOW + 60), "wrong", "(RateLimited); next"),
        (Survey(), NextAttempt("InstallationSuspended", None, NOW + 60), "wrong", "(InstallationSuspended); next"),
        (Survey(NOW, 5), NextAttempt("SweepOverdue", NOW - 90, NOW - 90), "wrong", "(SweepOverdue); next"),
        (Survey(NOW, 5), NextAttempt("SweepNotScheduled"), "wrong", "no next attempt is planned"),
        (Survey(), NextAttempt("", None, NOW + 60), "warning", "never swept; next attempt due"),
    ],
)
def test_the_reason_that_prevents_sweeps_is_reported_with_the_next_attempt(survey, attempt, status, text):
    (found,) = of_sweeps("acme", survey, 60, NOW, attempt)
    assert found.status == status
    assert text in found.text


@pytest.mark.parametrize(("ago", "status"), [(0.0, "ok"), (900.0, "ok"), (901.0, "wrong")])
def test_a_sweep_that_waits_for_its_turn_is_no_fault_unless_it_waits_for_long(ago, status):
    attempt = NextAttempt("RateLimited", NOW - ago, NOW + 60)
    (found,) = of_sweeps("acme", Survey(deferred_since=NOW - ago), 60, NOW, attempt)
    assert found.status == status
    assert time_of(NOW + 60) in found.text


def test_sweeps_are_attributed_to_roles_only_if_overdue():
    permission = of_sweeps("acme", Survey(), 60, NOW, NextAttempt("PermissionMissing", NOW, NOW + 60))
    overdue = of_sweeps("acme", Survey(), 60, NOW, NextAttempt("SweepOverdue", NOW - 90, NOW - 90))
    assert ["clock" in each.fix for each in (*permission, *overdue)] == [False, True]


def test_a_report_repository_of_an_owner_without_the_app_is_wrong(tmp_path):
    policy = tmp_path / "ghapp.toml"
    policy.write_text('[report]\nrepository = "acme/.github"\n[orgs.globex.report]\nrepository = "globx/.github"\n')
    settings = Settings.read({"GHAPP_CONFIG": str(policy), "GHAPP_STATE_DIR": "/nowhere"})
    found = of_report_owners(settings, ["Acme", "globex"])
    assert [(each.org, each.status, "globx/.github" in each.text) for each in found] == [("globex", "wrong", True)]
    assert [each.org for each in of_report_owners(settings, ["globex"])] == [None, "globex"]


def test_a_configured_org_without_the_app_is_reported(tmp_path):
    policy = tmp_path / "ghapp.toml"
    policy.write_text(
        '[[pools]]\norg = "Acme"\nname = "linux"\nlabels = ["linux"]\n[orgs.globex.sweep]\nconcurrency = 2\n'
    )
    settings = Settings.read({"GHAPP_CONFIG": str(policy), "GHAPP_STATE_DIR": "/nowhere"})
    assert [each.org for each in of_unknown_orgs(settings, ["acme"])] == ["globex"]
    assert [each.org for each in of_unknown_orgs(settings, [])] == ["Acme", "globex"]


def test_what_was_left_out_last_is_named_for_each_kind():
    assert of_left_out([], NOW) == []
    rows = [LastLeftOut("runner", "runners[3].id", "Expected `int`, got `null`", NOW, is_row=True)]
    (found,) = of_left_out([*rows], NOW)
    assert (found.status, found.group, found.name) == (FindingStatus.WARNING, "github", "left out: runner")
    assert "runners[3].id: Expected `int`, got `null`" in found.text


def test_what_was_left_out_stands_beside_its_source():
    kinds = get_args(Kind)
    groups = {each.name: each.group for each in of_left_out([LastLeftOut(kind, "", "odd", NOW) for kind in kinds], NOW)}
    assert set(groups.values()) < set(GROUPS)
    assert (groups["left out: pod"], groups["left out: delivery"]) == ("cluster", "deliveries")


@pytest.mark.parametrize(
    ("left", "text"),
    [(-1.0, "has expired at"), (0.0, "has expired at"), (SOON_SECONDS - 1, "expires at"), (SOON_SECONDS, None)],
)
def test_a_token_is_reported_two_weeks_before_it_expires(left, text):
    found = of_tokens([Token("1f2e", "arc", ("acme",), ("read",), NOW - 60, NOW + left)], NOW)
    assert [(each.status, each.text.startswith(text)) for each in found] == ([("warning", True)] if text else [])


@pytest.mark.parametrize(
    ("is_known", "is_private", "status"),
    [(True, True, []), (True, False, ["warning"]), (True, None, ["wrong"]), (False, None, ["ok"])],
    ids=["private", "public", "not visible", "no answer"],
)
def test_a_report_repository_must_be_visible_and_should_be_private(is_known, is_private, status):
    found = of_repository("acme", "acme/.github", is_known=is_known, is_private=is_private)
    assert [each.status for each in found] == status


def test_unreadable_records_are_reported_up_to_a_maximum():
    (fine,) = of_records([])
    assert fine.status is FindingStatus.OK
    many = [UnreadableRecord("runner", "ghapp:7:runners", f"#{number}", NOW, b"x") for number in range(MOST_NAMED + 2)]
    (found,) = of_records([UnreadableRecord("survey", "ghapp:7:survey", "", NOW, b"x"), *many])
    assert found.status is FindingStatus.WARNING
    assert "survey in ghapp:7:survey" in found.text
    assert all(
        (f"runner #{number} in ghapp:7:runners" in found.text) == (number < MOST_NAMED - 1) for number in range(7)
    )


@pytest.mark.parametrize(
    ("fsync", "status", "named"),
    [
        ("always", FindingStatus.OK, "always"),
        ("everysec", FindingStatus.OK, "2 s"),
        ("no", FindingStatus.WARNING, "no"),
        ("", FindingStatus.OK, ""),
    ],
)
def test_the_durability_of_writes_is_reported_with_its_cost(fsync, status, named):
    found = {each.name: each for each in of_redis("redis://localhost", 1.0, {"aof_enabled": 1}, "noeviction", fsync)}
    assert found["persistence"].status is status
    assert named in found["persistence"].text


@pytest.mark.parametrize(
    ("environ", "text"),
    [
        ({"GHAPP_PUBLIC_URL": "https://ghapp.example.com"}, "https://ghapp.example.com/; check runs and notifications"),
        ({}, "optional: with GHAPP_PUBLIC_URL, check runs and notifications link to the page"),
    ],
    ids=["public", "not public"],
)
def test_the_address_of_the_page_is_reported(environ, text):
    (found,) = [each for each in of_configuration(Settings.read(environ), environ) if each.name == "page"]
    assert (found.status, found.text.startswith(text)) == (FindingStatus.OK, True)


def test_the_state_directory_is_named_with_what_is_wrong_with_it(tmp_path, monkeypatch):
    def found(path):
        findings = of_configuration(Settings.read({"GHAPP_STATE_DIR": str(path)}), {})
        return [(each.status, each.text) for each in findings if each.name == "state directory"]

    assert found(tmp_path) == [(FindingStatus.OK, str(tmp_path))]
    assert found(tmp_path / "missing") == [], "no `ghapp up` has run"
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=0))
    assert found(tmp_path) == [(FindingStatus.WRONG, f"{tmp_path} has 0 MiB of free space, and ghapp needs 64 MiB")]


@pytest.mark.parametrize(
    ("info", "text"),
    [
        ({"redis_version": "7.0.15"}, "Redis 7.0.15 in 1.0 ms, 0 MiB used"),
        ({"redis_version": "7.2.4", "valkey_version": "9.1.2"}, "Valkey 9.1.2 in 1.0 ms, 0 MiB used"),
        ({}, "Redis ? in 1.0 ms, 0 MiB used"),
    ],
)
def test_valkey_is_called_valkey(info, text):
    assert of_redis("redis://127.0.0.1", 1.0, info, "noeviction")[0].text == text


MISSING = DeliveryGap(NOW - 600, NOW - 300, GapCause.FAILED, "12 failed and have not come since")
LATE = DeliveryGap(NOW - 125, None, GapCause.LATE, "deliveries arrive 2 min late")


def test_complete_deliveries_are_ok():
    (found,) = of_gaps("acme", (), 0, 0, NOW)
    assert (found.status, found.org, found.name) == (FindingStatus.OK, "acme", "complete")


@pytest.mark.parametrize(
    ("gaps", "without", "parts"),
    [
        ((LATE, MISSING), 0, [time_of(NOW - 600), "2 min late", "12 failed", "wait for them: 4"]),
        ((MISSING._replace(since=0.0),), 0, ["since an unknown time"]),
        ((MISSING._replace(since=NOW + 60),), 0, ["since an unknown time"]),
        ((MISSING,), 2, ["confirmed as lost after 1 h without them: 2"]),
    ],
    ids=["two causes", "no date", "a date in the future", "longer than an hour"],
)
def test_deliveries_that_are_behind_are_a_warning_in_words(gaps, without, parts):
    (found,) = of_gaps("acme", gaps, 4, without, NOW)
    assert (found.status, found.org) == (FindingStatus.WARNING, "acme")
    assert all(part in found.text for part in parts), found.text


@pytest.mark.parametrize(
    ("after_start", "started_at", "status"),
    [
        (WEB_STARTS_SECONDS, NOW - 60, FindingStatus.OK),
        (WEB_STARTS_SECONDS + 1, NOW - 60, FindingStatus.WRONG),
        (WEB_STARTS_SECONDS, None, FindingStatus.WRONG),
    ],
)
def test_attempts_that_failed_before_ghapp_ran_are_no_problem_of_its_first_minutes(after_start, started_at, status):
    (found,) = of_arrivals([FAILED._replace(at=NOW - 60 + after_start)], PAGE, started_at)
    assert found.status is status


FAILED_AT_START = MISSING._replace(until=NOW - 60 + WEB_STARTS_SECONDS + MARGIN_SECONDS)


@pytest.mark.parametrize(
    ("gaps", "started_at", "status"),
    [
        ((FAILED_AT_START,), NOW - 60, FindingStatus.OK),
        ((MISSING, FAILED_AT_START), NOW - 60, FindingStatus.OK),
        ((FAILED_AT_START._replace(until=FAILED_AT_START.until + MICROSECOND),), NOW - 60, FindingStatus.WARNING),
        ((FAILED_AT_START._replace(until=None),), NOW - 60, FindingStatus.WARNING),
        ((FAILED_AT_START, LATE), NOW - 60, FindingStatus.WARNING),
        ((FAILED_AT_START,), None, FindingStatus.WARNING),
    ],
    ids=["at start", "two spans", "later", "it goes on", "also late", "it runs for long"],
)
def test_deliveries_that_failed_before_ghapp_ran_are_no_problem_of_its_first_minutes(gaps, started_at, status):
    (found,) = of_gaps("acme", gaps, 4, 0, NOW, started_at)
    assert found.status is status
    assert ("failed before" in found.text) is (status is FindingStatus.OK)


def test_each_cause_of_a_gap_has_a_fix():
    fixes = [of_gaps("acme", (LATE._replace(cause=cause),), 0, 0, NOW)[0].fix for cause in GapCause]
    assert all(fixes)
    assert len(set(fixes)) == len(GapCause)


@pytest.mark.parametrize(("milliseconds", "status"), [(100.0, "ok"), (100.1, "warning")])
def test_a_slow_redis_is_a_warning_with_its_time(milliseconds, status):
    answers = of_redis("redis://127.0.0.1", milliseconds, {"aof_enabled": 1}, "noeviction")[0]
    assert answers.status == status
    assert answers.text.startswith("slow: Redis ? in 100.1 ms") is (status == "warning")


@pytest.mark.parametrize(("ago", "count"), [(0, 1), (LASTS_SECONDS - 0.001, 1), (LASTS_SECONDS, 0)])
def test_what_was_not_left_out_for_an_hour_is_read_again(ago, count):
    assert len(of_left_out([LastLeftOut("runner", "", "odd", NOW - ago)], NOW)) == count


def pool(name, *labels):
    return SimpleNamespace(name=name, labels=labels)


@pytest.mark.parametrize(
    ("pools", "warned"),
    [
        ([pool("linux", "linux-4vcpu")], []),
        ([pool("linux", "Linux-4vCPU")], []),
        ([pool("linux", "linux-4vpcu")], [("linux", "linux-4vpcu", "linux-4vcpu")]),
        ([pool("linux", "gpu")], []),
        ([pool("linux", "linux-4vcpu"), pool("large", "linux-8vcpu")], []),
        ([pool("all", "*")], []),
        ([pool("linux", "self-hosted", "linux-4vpcu")], [("linux", "linux-4vpcu", "linux-4vcpu")]),
    ],
    ids=[
        "right",
        "in other letters",
        "misspelt",
        "scaled to none",
        "like another pool's",
        "every runner",
        "one of two",
    ],
)
def test_a_pool_without_runners_is_reported_if_a_label_like_its_own_is_of_no_pool(pools, warned):
    runners = [online(1, labels=("self-hosted", "linux-4vcpu"))]
    found = of_pool_labels("acme", pools, runners)
    assert [each.name for each in found] == [f"pool {name}" for name, *_ in warned]
    for each, (_, label, near) in zip(found, warned, strict=True):
        assert label in each.text
        assert f"did you mean {near}?" in each.fix


def test_without_a_runner_no_label_is_called_misspelt():
    assert of_pool_labels("acme", [pool("linux", "linux-4vpcu")], []) == []
