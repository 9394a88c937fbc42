"""`ghapp runners` and `ghapp explain` with a cluster."""

from __future__ import annotations

import re

import pytest

from ghapp.deaths.cause import Cause
from ghapp.deaths.cluster_summary import ClusterSummary
from ghapp.deaths.death import DeadJob, Death, is_of
from ghapp.deaths.post_mortem_store import ClusterSummaries
from ghapp.leaks.documents import WHY_IT_WAITS
from ghapp.leaks.orphan import Orphan
from ghapp.leaks.reaper_status import LeakingPod
from ghapp.leaks.store import Leaks, Tick
from ghapp.pods.claim_store import PodClaims
from ghapp.pods.phantom_kinds import ADVICE, Phantom, PhantomKind, PhantomReason, key
from ghapp.pods.store import Pods
from ghapp.remediation.pause import Pause
from ghapp.remediation.store import Fuses
from ghapp.report.documents import timestamp
from ghapp.wording import time_of
from ghapp.workflow_jobs.job import Job
from ghapp.workflow_jobs.store import Demand
from tests.cli.conftest import ACME
from tests.cli.test_cli import one_line
from tests.rules.builders import online
from tests.support.snapshots import record_snapshot

LOST = PhantomReason.POD_LOST
GHOST = Phantom(PhantomKind.OBJECT_WITHOUT_POD, "ghost", LOST, ADVICE[LOST], "linux-4vcpu", "linux", "runners")


async def keep(known, *phantoms):
    since = {key(each): known.now - 300 for each in phantoms}
    await ClusterSummaries(known.redis).keep(ACME, ClusterSummary(known.now, since, phantoms))


async def test_phantoms_are_listed_after_the_runners_with_advice(known):
    await keep(known, GHOST, GHOST._replace(subject="other"))
    text = (await known.ask("runners", "--org", "acme")).stdout
    runners, _, phantoms = text.partition("2 phantoms: counted as runners, but not runners\n")
    assert "\n 1 runner\n" in runners
    assert "linux-1" in runners
    assert re.search(r" 5 min( \d+ s)? ago", phantoms)
    assert "runners/ghost" in phantoms
    assert "object-without-pod" in phantoms
    assert phantoms.count(f"PodLost → {ADVICE[LOST]}") == 1
    assert "\n   kubectl -n runners delete ephemeralrunner ghost\n" in phantoms


async def test_the_row_of_a_phantom_calls_it_so(known):
    await keep(known, GHOST._replace(subject="linux-1"))
    runners, *_ = (await known.ask("runners", "--org", "acme")).stdout.partition("1 phantom: counted")
    assert re.search(r"linux-1 .* phantom for 5 min( \d+ s)?\n", runners)


async def test_the_json_has_the_same_runners_and_phantoms(known):
    await keep(known, GHOST)
    found = await known.json("runners")
    assert (found["total"], [each["name"] for each in found["runners"]]) == (1, ["linux-1"])
    (phantom,) = found["phantoms"]
    assert phantom.pop("since").endswith("Z")
    assert phantom == {
        "org": "acme",
        "name": "ghost",
        "pool": "linux-4vcpu",
        "namespace": "runners",
        "scale_set": "linux",
        "kind": "object-without-pod",
        "reason": "PodLost",
        "detail": None,
        "advice": ADVICE[LOST],
        "command": "kubectl -n runners delete ephemeralrunner ghost",
    }


async def test_lost_runners_are_found_by_the_name_of_their_state(known):
    missing = {"absent_since": known.now - 90, "first_404_at": known.now - 60, "confirmed_at": known.now - 30}
    await known.add_runner(online(2, first_seen=known.now - 600, **missing, listed=False, online=False))
    by_word, by_state = [await known.json("runners", "--state", word) for word in ("lost", "invalidated")]
    assert (
        [each["name"] for each in by_word["runners"]] == [each["name"] for each in by_state["runners"]] == ["linux-2"]
    )


@pytest.mark.parametrize(
    ("guard", "word"),
    [("UnclaimedBriefly", "unused (UnclaimedBriefly)"), ("Unnamed", "leaked (Unnamed)"), ("", "leaked")],
)
async def test_explain_names_a_pod_that_nothing_uses_before_it_is_deleted(known, guard, word):
    known.write_config('[leaks]\nmode = "act"\n')
    leaking = (LeakingPod("runners", "k8s-x", "linux-1", known.now - 40, guard),)
    await Leaks(known.redis).remember(ACME, Tick(at=known.now, leaking=leaking))
    text = " ".join((await known.ask("explain", "acme", "linux-1")).stdout.split())
    assert (
        f"pod runners/k8s-x: {word} since {time_of(known.now - 40, known.now)}; {WHY_IT_WAITS[guard].format(grace='5 min')}"
        in text
    )


async def test_explain_names_the_pod_that_the_reaper_deleted_with_time_and_reason(known):
    evidence = ((known.now - 5, "list", "GitHub lists no runner of its name"),)
    gone = Orphan("runners", "k8s-x", "uid", "jit-7", "k8s", "node", known.now - 5, known.now - 95, evidence)
    await Leaks(known.redis).reaped(ACME, gone, known.now - 4)
    for name in ("k8s-x", "jit-7"):
        text = " ".join((await known.ask("explain", "acme", name)).stdout.split())
        assert "pod runners/k8s-x: deleted by the reaper at " in text
        assert "no claim and no job for 90 s; GitHub lists no runner of its name" in text
        (leak,) = (await known.json("explain", "acme", name))["leaks"]
        assert (leak["pod"], leak["runner"], leak["pool"], leak["state"]) == ("k8s-x", "jit-7", "k8s", "deleted")


@pytest.mark.parametrize("runner", ["listed", "never listed"])
async def test_explain_names_the_phantom_of_a_runner_with_the_command(known, runner):
    name = "linux-1" if runner == "listed" else "ghost"
    inflated = Phantom(PhantomKind.DEMAND_INFLATED, name, PhantomReason.DEMAND_INFLATED, "x", namespace="runners")
    await keep(known, GHOST._replace(subject=name), GHOST._replace(subject="apart"), inflated)
    text = " ".join((await known.ask("explain", "acme", name)).stdout.split())
    assert "phantom: it counts as a runner, and cannot run a job (object-without-pod since " in text
    assert f"PodLost → {ADVICE[LOST]} kubectl -n runners delete ephemeralrunner {name}" in text
    assert "apart" not in text
    found = await known.json("explain", "acme", name)
    (phantom,) = found["phantoms"]
    assert phantom in (await known.json("runners"))["phantoms"]
    assert (found["name"], found["runner_id"]) == ("linux-1", 1) if runner == "listed" else ("ghost", None)
    assert found["death"] is None


async def test_a_runner_that_is_no_phantom_is_not_called_one(known):
    await keep(known, GHOST)
    assert "phantom" not in (await known.ask("explain", "acme", "linux-1")).stdout
    assert (await known.json("explain", "acme", "linux-1"))["phantoms"] == []


OFFLINE = {"online": False, "was_online": True}


@pytest.mark.parametrize(
    ("state", "is_found"),
    [("offline", True), ("online", True), ("offline", False)],
    ids=["offline without a pod", "online", "offline with a pod"],
)
async def test_that_an_offline_runner_may_be_a_phantom_is_in_the_same_words_in_both_commands(known, state, is_found):
    known.set_public_url("https://ghapp.example.com")
    changes = {**OFFLINE, "offline_since": known.now - 500} if state == "offline" else {}
    await known.add_runner(online(2, first_seen=known.now - 600, **changes))
    since = {key(GHOST._replace(subject="linux-2")): known.now - 30} if is_found else {}
    await ClusterSummaries(known.redis).keep(ACME, ClusterSummary(known.now, since, ()))
    words = (
        "it has no working pod in the cluster, and may be a phantom",
        "  → wait: within two minutes of reading GitHub",
    )
    expected = state == "offline" and is_found
    for command in (("runners",), ("explain", "acme", "linux-2")):
        shown = (await known.ask(*command)).stdout
        assert [each in shown for each in words] == [expected] * 2, command
    assert (await known.json("explain", "acme", "linux-2"))["may_be_phantom"] is expected


async def test_without_a_cluster_no_phantom_is_reported(known):
    text = (await known.ask("runners")).stdout
    assert "phantom" not in text
    assert "cluster" not in text
    found = await known.json("runners")
    assert found["phantoms"] == []


@pytest.mark.parametrize(
    ("age", "is_shown"), [(None, True), (725.0, True), (10.0, False)], ids=["never", "minutes", "fresh"]
)
async def test_what_is_wrong_comes_first_with_what_to_do(known, age, is_shown):
    known.write_config()
    if age is not None:
        await record_snapshot(Pods(known.redis), "runners", [], [], known.now - age)
    first, second, *_ = (await known.ask("runners")).stdout.splitlines()
    if is_shown:
        assert first.startswith("acme: Namespace runners is not seen: deaths, leaks and phantoms there go unnoticed.")
        assert second == "  → check that `ghapp watch` runs and reaches the API server: `ghapp doctor`"
    else:
        assert first == "acme: The only runner is healthy."
    (headline,) = (await known.json("runners"))["headlines"]
    assert headline["kind"] == ("unseen" if is_shown else "well")


async def test_the_death_of_a_runner_is_shown_with_its_context(known):
    await known.add_death()
    text = (await known.ask("explain", "acme", "linux-1")).stdout
    assert "GitHub still lists it as healthy: Online" in text
    assert "host-oom (exit code 137, signal 9, OOMKilled)" in text
    assert "acme/api test failure https://github.com/acme/api/runs/42" in text
    assert "Raise it." in text
    assert "Running job: [test]" in text
    assert "\x1b[31m" not in text, "escape sequences of a log are removed"
    found = await known.json("explain", "acme", "1")
    assert (found["runner_id"], found["state"], found["death"]["cause"]) == (1, "healthy", "host-oom")


async def test_a_live_runner_has_no_death(known):
    assert (await known.json("explain", "acme", "linux-1"))["death"] is None


async def test_times_are_shown_to_the_second_and_kept_in_the_document(known):
    second = int(known.now) - 9
    await known.add_death("linux-1", at=second + 0.25, runner_id=1)
    assert (await known.json("explain", "acme", "linux-1"))["death"]["at"] == timestamp(second + 0.25)
    shown = (await known.ask("explain", "acme", "linux-1")).stdout
    assert f"died at {time_of(second, known.now)}" in shown
    assert re.findall(r"\d\.\d|\dZ", shown) == []


async def test_an_unknown_name_is_explained_by_its_death(known):
    await known.add_death("linux-9", exit_code=None, signal=None, cause=Cause.VANISHED, job=None, runner_id=9)
    found = await known.json("explain", "acme", "linux-9")
    assert (found["runner_id"], found["name"], found["state"], found["reason"]) == (
        9,
        "linux-9",
        "unknown",
        "NeverObserved",
    )
    assert (found["death"]["cause"], found["death"]["job"]) == ("vanished", None)
    text = (await known.ask("explain", "acme", "linux-9")).stdout
    assert "before its end was observed; it is unknown: NeverObserved" in text
    assert "vanished (exit code unknown, OOMKilled)" in text


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("linux-", "did you mean linux-1? "),
        ("LINUX-1x", "did you mean linux-1? "),
        ("nux-1", "did you mean linux-1? "),
        ("x-1", "did you mean linux-1? "),
        ("ux", ""),
        ("linux-22", ""),
        ("unknown", ""),
        ("linux-runner", ""),
        ("99", ""),
    ],
)
async def test_a_name_that_never_existed_is_wrong_usage_and_the_nearest_one_is_named(known, name, near):
    refused = one_line(await known.ask("explain", "acme", name), 2)
    assert f"acme {name}: unknown runner; {near}see `ghapp runners --org acme`" in refused


async def test_the_evidence_of_a_runner_has_the_claim_on_its_pod(known):
    await PodClaims(known.redis).claim(ACME, "linux-1", "linux-1", 42, known.now + 600)
    (claim,) = [
        each for each in (await known.json("explain", "acme", "linux-1"))["evidence"] if each["source"] == "claim"
    ]
    assert claim["text"].startswith("its controller claims that pod linux-1 is busy with job 42 until ")


NOW = 1_790_000_000.0


@pytest.mark.parametrize(
    ("runner_id", "at", "theirs"),
    [(1, NOW - 9999, True), (2, NOW, False), (None, NOW, True), (None, NOW - 1, False)],
    ids=["same id", "other id", "at its first observation", "a second before its first observation"],
)
def test_the_death_of_an_earlier_runner_with_the_same_name_is_not_shown(runner_id, at, theirs):
    death = Death("linux-1", "linux-1", "", at, 1, None, "", Cause.CRASH, "", runner_id=runner_id)
    assert is_of(death, online(1, first_seen=NOW)) is theirs


async def test_retired_runners_are_counted_and_listed_only_on_request(known):
    now = known.now
    missing = {"absent_since": now - 90, "first_404_at": now - 60, "confirmed_at": now - 30, "listed": False}
    await known.add_runner(online(2, first_seen=now - 600, **missing, online=False))
    await known.add_runner(
        online(3, first_seen=now - 600, **missing, online=False, granted_at=now - 20, replaced_at=now - 10, successor=1)
    )
    await known.add_runner(online(4, first_seen=now - 600, retired_at=now - 30))
    found = await known.json("runners")
    assert [each["name"] for each in found["runners"]] == ["linux-2", "linux-1"], "the lost one comes first"
    assert (found["total"], found["healed"], found["retired"]) == (2, 1, 1)
    text = (await known.ask("runners")).stdout
    assert "\n 1 of 2 runners; 1 invalidated\n" in text
    assert text.startswith(
        "acme: 1 of 2 runners of linux-4vcpu is lost (no job waits for this pool, 1 runner is idle): "
    )
    assert text.endswith(" 1 healed, 1 retired within the last 24 hours; --all shows them\n")
    assert "invalidated for 3" in text
    assert (await known.json("runners", "--all"))["total"] == 4
    for words, line in {
        ("offline",): "no runner is offline (of 2)",
        ("retired",): "1 of 4 runners",
        ("invalidated", "--all"): "2 of 4 runners; 1 healed, 1 invalidated",
    }.items():
        assert line in (await known.ask("runners", "--state", *words)).stdout
    lost = await known.json("runners", "--state", "invalidated")
    assert [each["name"] for each in lost["runners"]] == ["linux-2"], "the other one has healed"
    lost = await known.json("runners", "--state", "invalidated", "--all")
    assert [(each["name"], each["healed"]) for each in lost["runners"]] == [("linux-2", False), ("linux-3", True)]


async def test_runners_in_a_state_are_counted_apart_from_those_whose_loss_is_over(known):
    now = known.now
    missing = {"absent_since": now - 90, "first_404_at": now - 60, "confirmed_at": now - 30, "listed": False}
    done = {"granted_at": now - 20, "replaced_at": now - 10, "successor": 1, "healed_at": now - 5}
    await known.add_runner(online(2, first_seen=now - 600, **missing, online=False))
    await known.add_runner(online(3, first_seen=now - 600, **missing, online=False, **done))
    text = (await known.ask("runners", "--state", "invalidated")).stdout
    assert "\n 1 of 2 runners; 1 invalidated\n" in text
    assert "linux-3" not in text
    assert text.endswith(" 1 healed within the last 24 hours; --all shows them\n")
    row = next(line for line in (await known.ask("runners", "--all")).stdout.splitlines() if "linux-3" in line)
    assert [each["name"] for each in (await known.json("runners", "--state", "healed"))["runners"]] == ["linux-3"]
    assert " healed " in row
    assert "invalidated for" not in row


async def test_the_table_has_as_many_runners_as_the_headline_counts(known):
    now = known.now
    gone = {"absent_since": now - 50, "listed": False, "online": False, "offline_since": now - 900}
    steps = {"granted_at": now - 70, "event_id": "e", "removed_at": now - 60}
    await known.add_runner(online(2, first_seen=now - 2000, **gone, **steps))
    await known.add_runner(online(3, first_seen=now - 60, registered=False, listed=False, job_id=5, job_started_at=now))
    found = await known.json("runners")
    assert [(each["name"], each["remediation"]["open"]) for each in found["runners"]] == [
        ("linux-2", True),
        ("linux-1", False),
    ]
    text = (await known.ask("runners")).stdout
    assert text.startswith(
        "acme: 1 of 2 runners of linux-4vcpu is lost (no job waits for this pool, 1 runner is idle): "
    )
    assert "\n 1 of 2 runners; 1 invalidated\n" in text
    head = (await known.ask("explain", "acme", "linux-2")).stdout.splitlines()[0]
    assert head.startswith("acme linux-2 (2) is invalidated: ReplacedWhileOffline")


async def test_what_happens_next_to_a_lost_runner_is_the_same_in_both_commands(known):
    now = known.now
    known.write_config('[remediation]\nmode = "act"\n')
    missing = {"absent_since": now - 90, "first_404_at": now - 60, "confirmed_at": now - 30, "listed": False}
    await known.add_runner(online(2, first_seen=now - 600, **missing, online=False))
    await Fuses(known.redis).pause(ACME, "linux-4vcpu", Pause("mona", "a move", now))
    words = "remediation is paused by mona: a move"
    assert words in (await known.ask("runners")).stdout
    assert f"; {words}" in (await known.ask("explain", "acme", "linux-2")).stdout
    paused_at = time_of(now, now)  # after the loss
    assert (
        f"replacement: waiting since {paused_at}; {words}\n" in (await known.ask("explain", "acme", "linux-2")).stdout
    )
    found = (await known.json("explain", "acme", "linux-2"))["remediation"]
    assert (found["status"], found["blocked_by"], found["text"]) == ("waiting", "pause", words)


async def test_explain_says_how_old_the_answer_of_github_is(known):
    await known.add_runner(online(2, first_seen=known.now - 600, listed=False, observed_at=known.now - 40))
    head = (await known.ask("explain", "acme", "linux-2")).stdout.splitlines()[0]
    assert head.startswith("acme linux-2 (2) is healthy: Online, as of 40 s ago; pool ")


@pytest.mark.parametrize(("limit", "shown"), [("8Gi", True), ("", False)], ids=["known", "unknown"])
async def test_explain_has_the_memory_of_a_container_that_died(known, limit, shown):
    await known.add_death(memory_limit=limit)
    stdout = (await known.ask("explain", "acme", "linux-1")).stdout
    assert (re.search(r"^ memory +limit 8Gi, reached$", stdout, re.MULTILINE) is not None) is shown


async def test_a_death_comes_before_the_state_of_its_runner(known):
    await known.add_death()
    head = (await known.ask("explain", "acme", "linux-1")).stdout.splitlines()[0]
    died = r"acme linux-1 \(1\) died at \S+ UTC \(host-oom\): the runner was killed because its container reached its memory"
    assert re.match(rf"{died} limit; GitHub still lists it as healthy: ", head)


@pytest.mark.parametrize(
    ("died_ago", "offline_ago", "words"),
    [
        (50.0, None, "GitHub still lists it as healthy: Online; "),
        (70.0, None, "GitHub listed it after that as healthy: Online; "),
        (70.0, 10.0, "GitHub still lists it as healthy: OfflineBriefly; "),
        (70.0, 9000.0, "it is offline: "),
    ],
    ids=["listed within a minute", "listed later", "offline for a moment", "offline"],
)
async def test_a_dead_runner_that_github_lists_is_not_called_healthy_without_a_word(
    known, died_ago, offline_ago, words
):
    await known.add_death(at=known.now - died_ago, job=None)
    seen = {} if offline_ago is None else {"online": False, "offline_since": known.now - offline_ago}
    await known.add_runner(online(1, first_seen=known.now - 9600, **seen))
    assert f"; {words}" in (await known.ask("explain", "acme", "linux-1")).stdout.splitlines()[0]


async def test_a_death_without_a_pod_has_no_rows_of_a_pod(known):
    of_job = {"pod": "", "node": "", "exit_code": None, "signal": None, "reason": "OfflineDuringJob"}
    await known.add_death(**of_job, cause=Cause.LOST_COMMUNICATION)
    text = (await known.ask("explain", "acme", "linux-1")).stdout
    assert ": lost-communication (OfflineDuringJob)\n" in text
    assert not re.search(r"^ +(pod|node)\b", text, re.MULTILINE)


async def test_a_runner_that_is_retired_after_its_death_is_not_called_retired_alone(known):
    await known.add_death()
    ended = {"job_id": 43, "job_started_at": known.now - 30, "job_ended_at": known.now - 4, "ephemeral": True}
    gone = {"listed": False, "online": False, "absent_since": known.now - 3, "first_404_at": known.now - 2}
    await known.add_runner(online(1, first_seen=known.now - 60, **ended, **gone))
    head = (await known.ask("explain", "acme", "linux-1")).stdout.splitlines()[0]
    assert "reached its memory limit; it is retired, because its job ended with it: JobCompleted; pool " in head
    assert (await known.json("explain", "acme", "linux-1"))["reason"] == "JobCompleted"


async def test_a_clean_exit_is_an_end_and_its_job_has_the_conclusion_that_was_delivered_later(known):
    clean = {"cause": Cause.CLEAN_EXIT, "exit_code": 0, "signal": None, "reason": "Completed"}
    await known.add_death(**clean, job=DeadJob(43, "acme/api"))
    assert "acme/api 43 no conclusion yet\n" in (await known.ask("explain", "acme", "linux-1")).stdout
    now = known.now
    over = Job(43, "over", (), "acme/api", now - 40, 1, "linux-1", now - 30, name="test", conclusion="success")
    await Demand(known.redis).record(ACME, [over._replace(ended_at=now - 6)])
    text = (await known.ask("explain", "acme", "linux-1")).stdout
    assert "acme/api test success" in text
    assert f"\nended at {time_of(now - 5, now)}: clean-exit (exit code 0, Completed)\n" in text
    assert "died" not in text


async def test_the_address_of_the_incident_page_is_shown_if_a_public_url_is_set(known):
    assert "page:" not in (await known.ask("explain", "acme", "linux-1")).stdout
    known.set_public_url("https://ghapp.example.com")
    base = "https://ghapp.example.com"
    assert f"page: {base}/orgs/acme/runners/1\n" in (await known.ask("explain", "acme", "1")).stdout
    await known.add_death("linux-9", runner_id=9)
    output = (await known.ask("explain", "acme", "linux-9")).stdout
    assert f"page: {base}/orgs/acme/deaths/linux-9\n" in output, "the runner's record is deleted"
