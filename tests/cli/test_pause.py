"""`ghapp pause` and `ghapp resume`, as processes."""

import getpass
import json
import socket
import time
from dataclasses import replace

from ghapp.installations.installation import Installation
from ghapp.installations.store import Installations
from ghapp.remediation.fuse import Fuse, FuseReason, Position
from ghapp.remediation.pause import Pause
from ghapp.remediation.store import Fuses
from ghapp.report.documents import pause_in_words
from ghapp.runners.texts import fuse_history
from ghapp.store.audit import AuditLog, Trail
from ghapp.store.schedule import Schedule
from tests.support import commands

STOPPED = Fuse(Position.STOPPED, since=1.0, batch=3, allowed=3, reason=FuseReason.BATCH_NEVER_ONLINE)


def ghapp(redis_url, *arguments):
    return commands.ghapp(*arguments, GHAPP_REDIS_URL=redis_url)


async def test_resume_clears_pauses_restarts_stopped_fuses_and_reports_both(redis, redis_url):
    await Installations(redis).put(Installation(7, "Acme", 70))
    await Schedule(redis).add(7, time.time() + 60)
    await Fuses(redis).save(7, "gpu", None, STOPPED)
    await Fuses(redis).save(7, "linux", None, Fuse())
    paused = ghapp(redis_url, "pause", "acme", "--why", "maintenance")
    text = pause_in_words((await Fuses(redis).pauses(7))["*"])
    assert (paused.returncode, paused.stdout) == (0, f"paused: Acme, {text}\n`ghapp resume Acme` ends it\n")
    assert ghapp(redis_url, "pause", "acme", "--pool", "linux", "--why", "new image").returncode == 0
    user, linux = getpass.getuser(), pause_in_words((await Fuses(redis).pauses(7))["linux"])

    pool = ghapp(redis_url, "resume", "acme", "--pool", "linux")
    assert pool.stdout.splitlines() == [
        f"resumed: Acme, pool linux, paused {linux}",
        f"still in effect: pause, Acme, {text}; `ghapp resume Acme`",
    ]
    org = ghapp(redis_url, "resume", "acme")
    assert org.stdout.splitlines() == [
        f"resumed: Acme, paused {text}",
        "fuse restarted, now proving: Acme, pool gpu",
    ]
    assert org.stderr == "", "the result is printed only on stdout"
    fuse = (await Fuses(redis).all(7))["gpu"]
    assert (fuse.position, fuse.by) == (Position.PROVING, user)
    assert await Schedule(redis).is_any_due(time.time()), "it is swept at once"
    again, history = ghapp(redis_url, "resume", "acme"), fuse_history(fuse, str)
    assert (again.returncode, again.stdout.splitlines()) == (
        0,
        [
            "nothing was paused or stopped",
            f"fuse proving: Acme, pool gpu, {history}; it goes on, or stops, by itself: see `ghapp runners --org Acme`",
        ],
    )
    assert ghapp(redis_url, "resume", "acme", "--pool", "linux").stdout == "nothing was paused or stopped\n"


async def test_pause_and_resume_name_the_fuses_that_are_proving(redis, redis_url):
    await Installations(redis).put(Installation(7, "Acme", 70))
    fuse = replace(STOPPED, position=Position.PROVING, reason=FuseReason.MASS_LOSS)
    for pool in ("*", "gpu", "linux"):
        await Fuses(redis).save(7, pool, None, fuse)
    history = fuse_history(fuse, str)
    paused = ghapp(redis_url, "pause", "acme", "--pool", "gpu", "--why", "maintenance").stdout.splitlines()
    assert paused[2:] == [f"fuse proving: Acme, pool gpu, {history}; it requests nothing while the pause holds"]
    resumed = ghapp(redis_url, "resume", "acme").stdout.splitlines()
    effect = "it goes on, or stops, by itself: see `ghapp runners --org Acme`"
    assert resumed[1:] == [
        f"fuse proving: Acme, {subject}, {history}; {effect}" for subject in ("all pools", "pool gpu", "pool linux")
    ]


async def test_a_mistyped_pool_is_not_paused_and_is_reported_in_one_line(redis, redis_url):
    await Installations(redis).put(Installation(7, "Acme", 70))
    await Fuses(redis).save(7, "gpu", None, Fuse())
    done = ghapp(redis_url, "pause", "acme", "--pool", "gpus", "--why", "x")
    assert (done.returncode, done.stderr) == (
        2,
        "ghapp: Acme has no pool gpus; did you mean gpu? it has gpu\n",
    )
    assert await Fuses(redis).pauses(7) == {}


async def test_an_unknown_org_is_reported_in_one_line(redis, redis_url):
    await Installations(redis).put(Installation(7, "acme", 70))
    for arguments in (("pause", "globex", "--why", "x"), ("resume", "globex")):
        done = ghapp(redis_url, *arguments)
        assert done.returncode == 2
        assert done.stderr == "ghapp: globex: the App is not installed there; known are acme\n"


async def test_a_second_pause_keeps_the_first_and_reports_it(redis, redis_url):
    await Installations(redis).put(Installation(7, "Acme", 70))
    first = Pause("mona", "maintenance", time.time())
    await Fuses(redis).pause(7, "*", first)
    again = ghapp(redis_url, "pause", "acme", "--why", "another", "--for", "2h")
    assert again.returncode == 0
    assert again.stdout.splitlines() == [
        f"Acme: already paused {pause_in_words(first)}; that pause stays in effect: others can only extend it",
        "`ghapp resume Acme` ends it",
    ]
    assert await Fuses(redis).pauses(7) == {"*": first}


async def test_a_pause_that_is_running_is_extended_without_a_reason(redis, redis_url):
    await Installations(redis).put(Installation(7, "Acme", 70))
    first = Pause("mona", "maintenance", time.time(), time.time() + 600)
    await Fuses(redis).pause(7, "*", first)
    done = ghapp(redis_url, "pause", "acme", "--for", "4h")
    pause = (await Fuses(redis).pauses(7))["*"]
    assert (pause.who, pause.why, pause.at) == ("mona", "maintenance", first.at)
    assert 14_400 - 60 < pause.until - first.at < 14_400 + 60
    assert done.stdout.splitlines() == [
        f"pause changed: Acme, {pause_in_words(pause)}",
        f"before: {pause_in_words(first)}",
        "`ghapp resume Acme` ends it",
    ]
    (entry,) = await AuditLog(redis).latest(7, 10)
    assert (entry.who, entry.action, entry.result) == (getpass.getuser(), "pause", "extended")


async def test_a_new_pause_needs_a_reason(redis, redis_url):
    await Installations(redis).put(Installation(7, "Acme", 70))
    for words, text in (
        (["--for", "4h"], "no pause is running there that could be changed; `why` is the reason of a new one"),
        ([], "give --why, and --for if the pause is to end by itself; see `ghapp pause --help`"),
    ):
        done = ghapp(redis_url, "pause", "acme", *words)
        assert (done.returncode, done.stderr) == (2, f"ghapp: {text}\n")
    assert await Fuses(redis).pauses(7) == {}


async def test_a_mistyped_pool_is_not_resumed(redis, redis_url):
    await Installations(redis).put(Installation(7, "Acme", 70))
    await Fuses(redis).save(7, "gpu", None, STOPPED)
    done = ghapp(redis_url, "resume", "acme", "--pool", "gpus")
    assert (done.returncode, done.stderr) == (
        2,
        "ghapp: Acme has no pool gpus; did you mean gpu? it has gpu\n",
    )
    assert (await Fuses(redis).all(7))["gpu"] == STOPPED


async def test_the_fuse_of_the_installation_is_resumed_with_the_installation(redis, redis_url):
    await Installations(redis).put(Installation(7, "Acme", 70))
    for pool in ("*", "gpu"):
        await Fuses(redis).save(7, pool, None, STOPPED)
    assert ghapp(redis_url, "resume", "acme", "--pool", "gpu").stdout.splitlines() == [
        "fuse restarted, now proving: Acme, pool gpu",
        "still in effect: fuse stopped, Acme, tripped 1970-01-01 00:00:01 UTC, then BatchNeverOnline; `ghapp resume Acme`",
    ]
    resumed = ghapp(redis_url, "resume", "acme").stdout.splitlines()
    assert resumed[0] == "fuse restarted, now proving: Acme, all pools"
    assert resumed[1].startswith("fuse proving: Acme, pool gpu, resumed by ")


async def test_a_pause_may_have_an_end(redis, redis_url):
    await Installations(redis).put(Installation(7, "Acme", 70))
    done = ghapp(redis_url, "pause", "acme", "--why", "a move", "--for", "2h")
    pause = (await Fuses(redis).pauses(7))["*"]
    assert 7200 - 1 < pause.until - pause.at < 7200 + 1
    assert done.stdout == f"paused: Acme, {pause_in_words(pause)}\n`ghapp resume Acme` ends it\n"


async def test_a_pause_for_a_time_without_a_unit_is_refused_in_one_line(redis_url):
    done = ghapp(redis_url, "pause", "acme", "--why", "a move", "--for", "120")
    text = (
        "ghapp: Invalid value for '--for': '120' is not a duration from 1m to 30d, such as 2h; see `ghapp pause --help`"
    )
    assert (done.returncode, done.stderr) == (2, f"{text}\n")


async def test_what_a_command_changes_is_in_the_audit_log_under_its_user(redis, redis_url):
    await Installations(redis).put(Installation(7, "Acme", 70))
    ghapp(redis_url, "pause", "acme", "--why", "maintenance")
    ghapp(redis_url, "resume", "acme")
    ghapp(redis_url, "resume", "acme")
    secret = ghapp(redis_url, "token", "create", "--org", "acme", "--scope", "read", "--name", "arc", "--json")
    token = json.loads(secret.stdout)["id"]
    ghapp(redis_url, "token", "revoke", token)
    entries = await AuditLog(redis).latest(7, 10)
    made_by = getpass.getuser(), "command", socket.gethostname()
    assert {(each.who, each.channel, each.address) for each in entries} == {made_by}
    assert [(each.action, each.subject, each.why, each.result) for each in reversed(entries)] == [
        ("pause", "*", "maintenance", "paused"),
        ("resume", "*", "", "resumed"),
        ("create token", f"arc ({token})", "", "scopes read"),
        ("revoke token", f"arc ({token})", "", "revoked"),
    ]
    attempts = await AuditLog(redis).latest(7, 10, Trail.ATTEMPTS)
    assert [(each.action, each.result) for each in attempts] == [("resume", "nothing-to-resume")]


async def test_the_pool_that_stands_for_all_pauses_the_organization(redis, redis_url):
    await Installations(redis).put(Installation(7, "Acme", 70))
    done = ghapp(redis_url, "pause", "acme", "--pool", "*", "--why", "a move")
    text = pause_in_words((await Fuses(redis).pauses(7))["*"])
    assert (done.returncode, done.stdout) == (0, f"paused: Acme, {text}\n`ghapp resume Acme` ends it\n")
