"""The check run about a fleet."""

import re
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ghapp.deaths.cause import Cause
from ghapp.deaths.patterns import DeathSummary
from ghapp.installations.pool_matching import ALL_POOLS as WHOLE
from ghapp.pods.blockers import Blocker
from ghapp.pods.phantom_kinds import ADVICE, Phantom, PhantomKind, PhantomReason
from ghapp.remediation.fuse import FUSE_REASONS, Fuse, FuseReason, Position
from ghapp.report.check_run import LONGEST, PRESS, RESUME, SWEEP, Conclusion, resume_of, resumes_until
from ghapp.report.fleet import FleetView, PressedButton
from ghapp.report.fleet_report import report_on
from ghapp.runners.deletion_progress import Deletion
from ghapp.runners.next_attempt import NextAttempt
from ghapp.runners.remains import Remains, RemainsKind
from ghapp.runners.texts import MOST_HEALED, MOST_NAMED, MOST_OF_A_KIND, NOTES, fuse_history
from ghapp.runners.verdict import HANG_SECONDS, Limits, Reason
from ghapp.settings import PoolSettings
from ghapp.wording import clock_time, time_of
from ghapp.workflow_jobs.demand import PoolDemand, UnservedJob
from ghapp.workflow_jobs.job import Job
from ghapp.workflow_jobs.reason import QueueReason
from tests.report.fleets import fleet_of, healed, requested
from tests.rules.builders import LONG_AGO, MICROSECOND, NOW, lost, online, present, proving, survey, suspect

LIMITS = Limits()
STOPPED = proving(position=Position.STOPPED, reason=FuseReason.BATCH_NEVER_ONLINE)
PHANTOM = Phantom(
    PhantomKind.RUNNER_WITHOUT_POD,
    "linux-1",
    PhantomReason.MACHINE_GONE,
    ADVICE[PhantomReason.MACHINE_GONE],
    "linux-4vcpu",
    namespace="runners",
)
PAUSE = SimpleNamespace(who="mona", why="network maintenance", at=LONG_AGO, until=None)
TRIPPED = time_of(NOW, NOW)
UNTIL = "nothing more is replaced there until an admin resumes it"
OR_UNTIL = ", or until the pool is stable and no job waits for the lost runners"
SINCE = time_of(LONG_AGO, NOW)


def fleet(*runners, **changes) -> FleetView:
    return fleet_of(*(runners or (online(),)), **changes)


def unserved(job_id, at, reason=QueueReason.RUNNERS_OFFLINE, pool="linux-4vcpu", meant=""):
    return UnservedJob(Job(job_id, "queued", ("linux-4vcpu",), "acme/api", at), reason, pool, meant)


MISSPELT = unserved(1, LONG_AGO, QueueReason.NO_RUNNER_WITH_LABELS, "", "linux-4vcpu")


def starting(runner_id):
    return online(runner_id, first_seen=NOW - 1, was_online=False)


def replaced(runner_id, **changes):
    return healed(runner_id, NOW - 10, **changes)


def written_off(runner_id, **changes):
    return lost(runner_id, not_needed_at=NOW - 10, **changes)


def unknown(runner_id):
    return online(runner_id, listed=False, observed_at=NOW - 301)


def stuck(because="ClusterForbidden", since=LONG_AGO, **changes):
    return lost(deletion=Deletion(waits_for=because, waiting_since=since), **changes)


def many(count, make=online):
    return [make(each) for each in range(1, count + 1)]


@pytest.mark.parametrize(
    ("runners", "changes", "title"),
    [
        ([*many(296), lost(401), lost(402), lost(403), present(404)], {}, "3 of 300 runners lost, 1 runner offline"),
        ([online(1), replaced(2), lost(3)], {}, "1 of 2 runners lost"),
        ([online(1), requested(2, NOW)], {}, "1 of 2 runners lost"),
        ([online(1), replaced(2)], {}, "1 runner healthy"),
        ([suspect(1)], {}, "no runner healthy, 1 being checked"),
        (many(300), {}, "300 runners healthy"),
        ([online(1), lost(2, registered=False)], {}, "1 runner healthy"),
        ([], {}, "no runner is registered"),
        ([], {"survey": survey(swept_at=None)}, "no list yet"),
        ([lost(1)], {"fuses": {"linux-4vcpu": proving()}}, "1 of 1 runner lost, fuse proving"),
        ([lost(1)], {"fuses": {"*": proving()}}, "1 of 1 runner lost, fuse of all pools proving"),
        ([online()], {"fuses": {"a": STOPPED, "b": proving()}}, "2 fuses not closed, fuse stopped"),
        ([online()], {"org_pause": PAUSE}, "paused by mona"),
        ([online()], {"pauses": {"gpu": PAUSE, "arm": PAUSE}}, "2 pauses"),
    ],
)
def test_the_title_has_a_few_words_of_each_kind_of_headline_the_worst_first(runners, changes, title):
    assert report_on(fleet_of(*runners, **changes), NOW).title.removesuffix(f", as of {clock_time(NOW)}") == title


BLIND = survey(swept_at=NOW - 300 - MICROSECOND, failing_since=NOW - 200, failure="PermissionMissing")
SUCCESS, NEUTRAL, ACTION_REQUIRED, *_ = Conclusion


@pytest.mark.parametrize(
    ("runners", "changes", "conclusion"),
    [
        ([online()], {}, SUCCESS),
        ([starting(1)], {}, SUCCESS),
        ([online(1), replaced(2)], {}, SUCCESS),
        ([online(), present(2)], {}, ACTION_REQUIRED),
        ([online(), suspect(2)], {}, SUCCESS),
        ([online(), suspect(2, absent_since=NOW - 301)], {}, ACTION_REQUIRED),
        ([online(), requested(2, NOW)], {}, NEUTRAL),
        ([online(), unknown(2)], {}, NEUTRAL),
        ([online(), lost(2)], {}, NEUTRAL),
        ([online()], {"fuses": {"linux-4vcpu": proving()}}, NEUTRAL),
        ([online()], {"fuses": {"gone": proving()}}, NEUTRAL),
        ([online()], {"pauses": {"linux-4vcpu": PAUSE}}, ACTION_REQUIRED),
        ([online()], {"org_pause": PAUSE}, ACTION_REQUIRED),
        ([present()], {"org_pause": PAUSE}, ACTION_REQUIRED),
        ([replaced(1)], {"org_pause": PAUSE}, ACTION_REQUIRED),
        ([online(), stuck()], {}, ACTION_REQUIRED),
        ([online(), stuck(Blocker.RESOURCE_MISSING)], {}, ACTION_REQUIRED),
        ([online(), stuck(Blocker.CLUSTER_UNAVAILABLE)], {}, ACTION_REQUIRED),
        ([online(), stuck(replaced_at=NOW, successor=9)], {}, SUCCESS),
        ([online()], {"mode": "off"}, SUCCESS),
        ([online()], {"survey": replace(BLIND, failing_since=None)}, ACTION_REQUIRED),
        ([online()], {"survey": replace(BLIND, swept_at=NOW - 300)}, ACTION_REQUIRED),
        ([online()], {"survey": replace(BLIND, swept_at=NOW - 300, failure="GitHubUnavailable")}, NEUTRAL),
        ([online()], {"survey": survey(swept_at=None)}, NEUTRAL),
        ([online()], {"fuses": {"linux-4vcpu": STOPPED}}, ACTION_REQUIRED),
        ([online()], {"fuses": {"gone": STOPPED}}, ACTION_REQUIRED),
        ([online()], {"fuses": {WHOLE: STOPPED}}, ACTION_REQUIRED),
        ([], {"fuses": {WHOLE: STOPPED}}, ACTION_REQUIRED),
        ([online()], {"fuses": {WHOLE: proving()}}, NEUTRAL),
        ([online()], {"fuses": {WHOLE: Fuse()}}, SUCCESS),
        ([online(1), written_off(2)], {}, SUCCESS),
        ([lost()], {"pauses": {"linux-4vcpu": PAUSE}}, ACTION_REQUIRED),
        ([lost()], {"pauses": {"another": PAUSE}}, ACTION_REQUIRED),
        ([online()], {"org_pause": SimpleNamespace(**vars(PAUSE) | {"until": NOW + 60})}, NEUTRAL),
        ([online()], {"unserved": [unserved(1, LONG_AGO)]}, ACTION_REQUIRED),
        ([online()], {"unserved": [MISSPELT]}, NEUTRAL),
        ([online()], {"slow": [unserved(1, LONG_AGO, QueueReason.ALL_BUSY)]}, NEUTRAL),
        ([lost()], {"org_pause": PAUSE}, ACTION_REQUIRED),
        ([lost(granted_at=NOW)], {"org_pause": PAUSE}, ACTION_REQUIRED),
        ([lost()], {"mode": "off"}, ACTION_REQUIRED),
        ([lost()], {"mode": "dry-run"}, ACTION_REQUIRED),
        ([online()], {"survey": BLIND}, ACTION_REQUIRED),
        ([], {"survey": survey(swept_at=None, failing_since=NOW, failure="RateLimited")}, ACTION_REQUIRED),
    ],
)
def test_the_conclusion_requires_action_only_if_a_person_must_act(runners, changes, conclusion):
    assert report_on(fleet_of(*runners, **changes), NOW).conclusion is conclusion


@pytest.mark.parametrize(
    ("changes", "actions"),
    [
        ({}, (SWEEP,)),
        ({"fuses": {"linux-4vcpu": proving()}}, (SWEEP,)),
        ({"fuses": {"linux-4vcpu": STOPPED}}, (SWEEP, resume_of(NOW))),
        ({"fuses": {WHOLE: STOPPED}}, (SWEEP, resume_of(NOW))),
        ({"fuses": {WHOLE: replace(STOPPED, stopped_at=NOW + 0.5)}}, (SWEEP, resume_of(NOW + 1))),
        ({"fuses": {WHOLE: proving()}}, (SWEEP,)),
        ({"pauses": {"linux-4vcpu": PAUSE}}, (SWEEP,)),
        ({"pauses": {"linux-4vcpu": PAUSE}, "fuses": {WHOLE: STOPPED}}, (SWEEP, resume_of(NOW))),
        ({"org_pause": PAUSE, "runners": ()}, (SWEEP,)),
    ],
)
def test_resume_is_offered_if_a_fuse_is_stopped_and_never_for_a_pause(changes, actions):
    assert report_on(fleet(**changes), NOW).actions == actions


@pytest.mark.parametrize(
    ("identifier", "until"),
    [
        ("sweep", None),
        ("resume", None),
        (f"resume-{NOW:.0f}", NOW),
        ("resume-soon", None),
        ("resume-²", None),
        ("resume-" + "9" * 12, 10**12 - 1),
        ("resume-" + "9" * 13, None),
        ("resume-" + "9" * 5_000, None),
        ("resumed", None),
    ],
)
def test_a_resume_button_applies_to_stops_up_to_its_time(identifier, until):
    assert resumes_until(identifier) == until


@pytest.mark.parametrize("action", [SWEEP, RESUME, resume_of(NOW)])
def test_a_button_fits_into_githubs_limits(action):
    assert (len(action.label) <= 20, len(action.description) <= 40, len(action.identifier) <= 20) == (True, True, True)


PAGE = "https://github.com/organizations/{}/settings/actions/runners/4242"


def test_a_runners_row_shows_the_start_and_the_reason_of_its_state():
    text = report_on(fleet(lost(4242, name="linux-4vcpu-x7k2p", labels=("self-hosted", "Linux"))), NOW).text
    assert text.splitlines()[-1] == (
        f"| `linux-4vcpu-x7k2p` | invalidated | {time_of(NOW, NOW)} | RegistrationInvalidated | "
        f"`linux-4vcpu` | `linux-4vcpu` | waiting since {time_of(NOW, NOW)}: its replacement is the next one |"
    )


@pytest.mark.parametrize(
    ("runner", "has_page"),
    [
        (present(4242), True),
        (suspect(4242, absent_since=NOW - 301), False),
        (lost(4242), False),
        (replaced(4242), False),
        (present(4242, removed_at=NOW), False),
    ],
    ids=["offline", "suspect", "invalidated", "healed", "removed for being offline"],
)
def test_a_row_links_to_the_runners_page_while_the_runner_is_registered(runner, has_page):
    assert (PAGE.format("acme") in report_on(fleet(runner), NOW).text) is has_page


def test_pages_of_a_renamed_org_are_linked_under_its_current_login():
    assert PAGE.format("acme-two") in report_on(fleet_of(present(4242), login="acme-two"), NOW).text


def test_a_zombies_row_names_it_as_a_zombie():
    running = Remains(RemainsKind.RUNNING, since=LONG_AGO, seen_at=NOW)
    ended = {"ephemeral": True, "job_id": 7, "job_started_at": LONG_AGO, "job_ended_at": NOW - HANG_SECONDS - 1}
    absence = {"absent_since": NOW - HANG_SECONDS - 1, "first_404_at": NOW - HANG_SECONDS - 1}
    row = report_on(fleet(lost(remains=running, **ended, **absence)), NOW).text.splitlines()[-1]
    assert f"| HangsAfterJob: {NOTES[Reason.HANGS_AFTER_JOB]} |" in row


def test_healed_runners_are_shown_separately_from_open_ones():
    text = report_on(fleet(lost(1), replaced(2), replaced(3, healed_at=NOW - 5), online(4)), NOW).text
    opened, _, after = text.partition(
        "\n\n### Healed: 2 runners were lost within 24 hours, and a successor is online\n\n"
    )
    assert ("`linux-1`" in opened, "`linux-2`" in opened) == (True, False)
    assert [line.split(" | ")[0] for line in after.splitlines()[2:]] == ["| `linux-3`", "| `linux-2`"]
    assert after.splitlines()[2].endswith(
        f"| RegistrationInvalidated | {time_of(NOW, NOW)} | {time_of(NOW - 5, NOW)} |"
    )


@pytest.mark.parametrize(("count", "earlier"), [(MOST_HEALED, None), (MOST_HEALED + 1, "1 more runner")])
def test_of_many_healed_runners_the_latest_are_shown_and_the_others_are_a_link(count, earlier):
    runners = [replaced(number, healed_at=NOW - number) for number in range(1, count + 1)]
    text = report_on(fleet_of(*runners, online(count + 1), pages_url="https://ghapp.example.com"), NOW).text
    assert text.count("RegistrationInvalidated") == MOST_HEALED
    assert (" healed before these" in text) is (earlier is not None)
    page = "https://ghapp.example.com/orgs/acme/runners?state=healed"
    assert earlier is None or text.endswith(f"\n\n[{earlier} healed before these]({page}).")


def test_requests_without_a_successor_for_an_hour_are_shown_apart():
    text = report_on(fleet(online(1), requested(2, NOW - 3901)), NOW).text
    assert "- The replacement of 1 runner of `linux-4vcpu` was requested within 24 hours, and no successor" in text
    assert "`linux-2`" not in text


def test_written_off_losses_are_shown_with_the_reason():
    text = report_on(fleet(online(1), written_off(2), written_off(3)), NOW).text
    assert (
        f"- 2 lost runners of `linux-4vcpu` were written off within 24 hours, the last {time_of(NOW - 10, NOW)}" in text
    )
    assert "`NotNeeded`" in text


@pytest.mark.parametrize(
    ("runner", "changes", "expected"),
    [
        (requested(1, NOW - 7), {}, f"requested since {time_of(NOW - 7, NOW)}: no successor is online yet"),
        (lost(), {"org_pause": PAUSE}, f"waiting (pause) since {time_of(NOW, NOW)} |"),
        (stuck(), {}, f"waiting since {SINCE}: RBAC lacks a verb; `ghapp doctor` names it (ClusterForbidden)"),
        (present(), {}, "–"),
    ],
)
def test_a_runners_row_shows_what_happens_next_to_it(runner, changes, expected):
    cell = report_on(fleet(runner, **changes), NOW).text.splitlines()[-1].rsplit(" | ", 1)[1]
    assert cell.startswith(expected)


HELD = "nothing is replaced: remediation is in dry-run"


@pytest.mark.parametrize(
    ("count", "above", "cell"),
    [
        (2, "", f"waiting since {time_of(NOW, NOW)}: {HELD} |"),
        (
            3,
            f"- waiting (dry-run): {HELD}\n\n",
            f"waiting (dry-run) since {time_of(NOW, NOW)} |",
        ),
    ],
)
def test_a_sentence_that_more_than_two_rows_would_repeat_stands_once_above_the_table(count, above, cell):
    lines = report_on(fleet(*(lost(number) for number in range(count)), mode="dry-run"), NOW).text
    rows = [line for line in lines.splitlines() if line.startswith("| `linux-")]
    assert [row.rsplit(" | ", 1)[1] for row in rows] == [cell] * count
    assert lines.partition("| Runner ")[0] == above


def test_rows_are_ordered_by_open_then_worst_then_oldest():
    runners = [
        requested(1, NOW),
        present(2),
        suspect(3, absent_since=NOW - 301),
        lost(4),
        lost(5, confirmed_at=NOW - 1),
        online(6),
    ]
    text = report_on(fleet(*runners), NOW).text
    assert re.findall(r"`linux-(\d+)`\S* \|", text) == ["5", "4", "3", "2", "1"]


def test_a_healthy_fleet_has_a_short_text_without_fuses():
    report = report_on(fleet(), NOW)
    assert report.text == "No runner is offline or invalidated."


def test_while_lists_fail_the_text_says_of_which_list_it_is():
    report = report_on(fleet(survey=survey(failing_since=NOW - 9, failure="PermissionMissing")), NOW)
    assert report.text == "No runner is offline or invalidated in the last complete list."


@pytest.mark.parametrize(
    ("fuse", "expected"),
    [
        (
            STOPPED,
            f"**stopped** (tripped {TRIPPED}, then `BatchNeverOnline`): {UNTIL}{OR_UNTIL}.",
        ),
        (
            proving(batch=6, reason=FuseReason.RESUMED, by="mona"),
            f"**proving** (resumed by `mona` {TRIPPED}): a batch of 6 is replaced; the next one is twice as large as its successors online.",
        ),
        (
            Fuse(Position.STOPPED, reason=FuseReason.UNREADABLE),
            f"**stopped** (`Unreadable`: its record in Redis cannot be read): {UNTIL}.",
        ),
    ],
)
@pytest.mark.parametrize(("pool", "what"), [("linux-4vcpu", "`linux-4vcpu`"), (WHOLE, "all pools")])
def test_the_text_begins_with_a_fuse_that_is_not_closed(fuse, expected, pool, what):
    assert report_on(fleet(fuses={pool: fuse}), NOW).text.startswith(f"- The fuse of {what} is {expected}\n\n")


@pytest.mark.parametrize("batch_at", [NOW - 60, NOW + 60], ids=["its own batch", "that of all pools"])
def test_two_fuses_that_prove_are_both_shown_whichever_holds_up_the_pool(batch_at):
    fuses = {"linux-4vcpu": replace(proving(), batch_at=batch_at), WHOLE: replace(proving(), batch_at=NOW)}
    report = report_on(fleet(lost(1), fuses=fuses), NOW)
    shown = [line.partition(" is ")[0] for line in report.text.splitlines() if line.startswith("- The fuse of ")]
    assert shown == ["- The fuse of all pools", "- The fuse of `linux-4vcpu`"]
    assert report.title.endswith("lost, fuse of all pools proving")


def test_a_fuse_in_dry_run_is_shown_without_batches():
    text = report_on(fleet(fuses={"linux-4vcpu": proving()}, mode="dry-run"), NOW).text
    assert text.partition("\n")[0].endswith("): nothing is replaced: remediation is dry-run.")


MASS_LOSS, ONLINE = FuseReason.MASS_LOSS, FuseReason.BATCH_ONLINE


@pytest.mark.parametrize(
    ("fuse", "expected"),
    [
        (proving(reason=MASS_LOSS, tripped_for=MASS_LOSS), f"tripped {TRIPPED} for MassLoss"),
        (proving(reason=ONLINE, tripped_for=MASS_LOSS), f"tripped {TRIPPED} for MassLoss, then BatchOnline"),
        (proving(reason=MASS_LOSS), f"tripped {TRIPPED} for MassLoss"),
        (proving(reason=ONLINE), f"tripped {TRIPPED}, then BatchOnline"),
        (
            proving(reason=ONLINE, tripped_for=FuseReason.RESUMED, by="mona"),
            f"resumed by mona {TRIPPED}, then BatchOnline",
        ),
    ],
    ids=["just tripped", "a batch is online", "of an older version", "of an older version, later", "resumed"],
)
def test_the_reason_of_a_trip_is_shown_beside_the_fuses_last_change(fuse, expected):
    assert fuse_history(fuse, str, NOW) == expected


@pytest.mark.parametrize("runners", [[], [lost()], [lost(number) for number in range(9)]], ids=len)
@pytest.mark.parametrize("pauses", [{"org_pause": PAUSE}, {"pauses": {"linux-4vcpu": PAUSE}}], ids=["all", "one pool"])
def test_a_pause_is_shown_with_its_person_and_its_reason_once(runners, pauses):
    report = report_on(fleet(*runners, **pauses), NOW)
    assert (report.summary + report.text).count("network maintenance") == 1
    assert f"| by `mona` {SINCE} |" in report.summary
    assert "paused by mona" in report.title


def test_a_pause_of_another_pool_than_that_of_the_lost_runners_is_a_line_of_its_own():
    lines = report_on(fleet(lost(), pauses={"gpu": PAUSE, "linux-4vcpu": PAUSE}), NOW).summary.splitlines()
    first, second = [line for line in lines if "network maintenance" in line]
    assert first.startswith("- **1 of 1 runner of linux-4vcpu is lost: remediation is paused by mona: network maint")
    assert second.startswith("- **Remediation is paused in gpu by mona: network maintenance; nothing")


@pytest.mark.parametrize(
    ("changes", "effect"),
    [
        ({}, "a batch of 3 is replaced"),
        ({"org_pause": PAUSE}, "nothing is replaced while remediation is paused"),
        ({"pauses": {"linux-4vcpu": PAUSE}}, "nothing is replaced while remediation is paused"),
        ({"pauses": {"arm": PAUSE}}, "a batch of 3 is replaced"),
    ],
    ids=["acting", "all pools are paused", "the pool is paused", "another pool is paused"],
)
def test_a_proving_fuse_replaces_a_batch_only_while_its_pool_is_not_paused(changes, effect):
    text = report_on(
        fleet(lost(1), fuses={"linux-4vcpu": Fuse(Position.PROVING, since=NOW, batch=3)}, **changes), NOW
    ).text
    (line,) = [each for each in text.splitlines() if each.startswith("- The fuse of ")]
    assert f": {effect}" in line


def test_the_summary_has_a_row_for_each_pool():
    rules = [SimpleNamespace(name="gpu", labels=("gpu",), shard_label=None, replacer="none")]
    report = report_on(
        fleet(
            *many(7),
            starting(8),
            present(9),
            suspect(10),
            lost(11),
            unknown(12),
            *map(replaced, (13, 14)),
            written_off(15),
            rules=rules,
            pauses={"arm": PAUSE},
        ),
        NOW,
    )
    assert report.summary.splitlines()[-5:] == [
        "| Pool | Runners | Healthy | Starting | Offline | Suspect | Lost | Unknown | Healed, 24 h | Fuse | Paused |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- | --- |",
        f"| `arm` | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | closed | by `mona` {SINCE} |",
        "| `gpu` | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | closed | – |",
        "| `linux-4vcpu` | 11 | 7 | 1 | 1 | 1 | 1 | 1 | 2 | closed | – |",
    ]


def test_a_column_of_the_summary_is_shown_with_its_meaning_while_it_counts_something():
    calm = report_on(fleet(*many(3)), NOW).summary
    assert "| Pool | Runners | Healthy | Lost | Fuse |" in calm
    assert "Lost (`invalidated`): " in calm
    assert "Fuse: " in calm
    for runner, column in ((present(9), "Offline"), (starting(8), "Starting"), (suspect(10), "Suspect")):
        summary = report_on(fleet(*many(3), runner), NOW).summary
        assert f" | {column} | " in summary
        assert f"{column}: " in summary
        assert f"{column}: " not in calm
    assert "Healed: lost within 24 hours" in report_on(fleet(*many(3), replaced(13)), NOW).summary


def test_the_summary_shows_the_state_of_a_fuse():
    summary = report_on(fleet(fuses={"linux-4vcpu": STOPPED}), NOW).summary
    assert summary.endswith(f"| **stopped** (tripped {TRIPPED}, then `BatchNeverOnline`) |")
    summary = report_on(fleet(fuses={WHOLE: STOPPED, "linux-4vcpu": proving()}), NOW).summary
    assert summary.endswith("| **stopped** (all pools) |"), "the fuse that decides"
    assert "`*`" not in summary, "the whole installation is no pool"


def test_the_summary_begins_with_its_time_and_what_is_wrong_the_worst_first():
    pause = {"pauses": {"gpu": PAUSE}}
    report = report_on(fleet(online(1), lost(2), **pause), NOW + 7)
    assert report.summary.startswith(f"**As of {time_of(NOW + 7)}** (complete list of {time_of(NOW, NOW)}). ")
    assert report.summary.startswith(report.as_of)
    lines = report.summary.removeprefix(report.as_of).splitlines()
    assert lines[0].startswith(
        "- **1 of 2 runners of linux-4vcpu is lost: its replacement is the next one.** "
        f"Since {time_of(NOW - 60, NOW)}. Nothing to"
    )
    assert lines[1].startswith("- **Remediation is paused in gpu by mona: network maintenance; nothing")
    assert lines[1].endswith(" An admin of ghapp: resume when the reason is over."), (
        "not each reader may run its command"
    )


@pytest.mark.parametrize(
    ("at", "next_attempt"),
    [
        (None, " No next attempt is planned. "),
        (NOW + 6, " GitHub is asked again until a list is complete. "),
        (NOW + 600, " GitHub is asked again until a list is complete. "),
        (NOW + 601, f" GitHub is asked again until a list is complete, not before {time_of(NOW + 601, NOW)}. "),
    ],
    ids=["none", "passed when it is read", "before the next post", "later"],
)
def test_the_summary_names_the_obstacle_to_sweeps_and_the_next_attempt_also_if_it_is_read_later(at, next_attempt):
    attempt = NextAttempt("PermissionMissing", NOW - 200, at)
    begin, why, _ = report_on(fleet(survey=BLIND, attempt=attempt), NOW).summary.split("\n\n", 2)
    assert next_attempt in begin
    assert why.startswith(
        "- **Runners cannot be read: the App may not read the organization's runners (PermissionMissing);"
    )
    assert why.endswith(" once an owner grants the App `organization_self_hosted_runners: write`: `ghapp doctor`")


def test_the_time_of_the_list_and_of_the_next_attempt_do_not_change_the_digest():
    attempt = NextAttempt("PermissionMissing", NOW - 200, NOW + 60)
    first = report_on(fleet(survey=BLIND, attempt=attempt), NOW)
    later = report_on(fleet(survey=BLIND, attempt=attempt._replace(at=NOW + 120)), NOW + 60)
    assert first.summary != later.summary
    assert first.digest == later.digest


@given(st.floats(0, 59))
def test_time_alone_does_not_change_the_digest(passed):
    runners = (online(1), lost(2), suspect(3), present(4), replaced(5), starting(6))
    expected = fleet_of(*runners, fuses={"linux-4vcpu": STOPPED}, org_pause=PAUSE)
    assert report_on(expected, NOW + passed).digest == report_on(expected, NOW).digest


def test_a_runner_that_lists_show_offline_for_too_long_is_reported_with_the_list_that_shows_it():
    runner = online(online=False, offline_since=NOW)
    surveys = [survey(swept_at=NOW + 300 + more) for more in (0, MICROSECOND)]
    before, after = (report_on(fleet(runner, survey=each), NOW + 330) for each in surveys)
    assert (before.conclusion, after.conclusion) == (SUCCESS, ACTION_REQUIRED)
    assert before.digest != after.digest


@pytest.mark.parametrize("changed", ["title", "summary", "text", "conclusion", "actions"])
def test_the_digest_changes_with_each_part_of_the_report(changed):
    report = report_on(fleet(), NOW)
    other = report_on(fleet(lost(), org_pause=PAUSE, fuses={WHOLE: STOPPED}), NOW)
    assert replace(report, **{changed: getattr(other, changed)}).digest != report.digest


@pytest.mark.parametrize("count", [500, 1000])
def test_a_long_table_is_cut_at_the_end_of_a_row_with_a_count_of_omitted_rows(count):
    runners = [present(number, custom_labels=(f"pool-{number}",)) for number in range(count)]
    text = report_on(fleet(*runners, fuses={"linux-4vcpu": STOPPED}), NOW).text
    assert len(text) <= LONGEST < len(text) + 250, "the text is filled up to one row and the note"
    left_out = int(re.search(r"… and (\d+) more rows of runners, which do not fit here\.$", text).group(1))
    rows = text.partition("\n\n… and")[0].splitlines()
    assert all(each.startswith(("- ", "| ")) and each.endswith((".", " |")) for each in rows if each)
    assert len(re.findall(r"settings/actions/runners/", text)) + left_out == count


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 300), st.integers(0, 70))
def test_no_text_exceeds_githubs_limits_for_any_foreign_text(count, length):
    evil = "|`<@é\n" * 20
    labels = tuple(f"{number}{evil}" for number in range(length))
    runners = [present(each, name=evil, custom_labels=(*labels, str(each))) for each in range(count)]
    fuses = {f"{number}{evil}": STOPPED for number in range(count)}
    report = report_on(fleet(*runners, fuses=fuses), NOW)
    assert len(report.summary) <= LONGEST
    assert len(report.text) <= LONGEST
    assert len(report.title) <= 200
    found = re.findall(r"settings/actions/runners/\d+", report.text)
    left_out = re.search(r"and (\d+) more rows of runners", report.text)
    assert len(found) + (int(left_out.group(1)) if left_out else 0) == count


@pytest.mark.parametrize("count", [5, 6, 37])
def test_many_alike_have_one_row_with_their_number_the_first_names_and_their_page(count):
    """37 rows of a mass loss differed in the name alone."""
    made = [lost(number, confirmed_at=NOW - 9 + number % 5) for number in range(100, 100 + count)]
    known = {"fuses": {"linux-4vcpu": STOPPED}, "pages_url": "https://ghapp.example.com"}
    report = report_on(fleet(*made, online(1, custom_labels=("gpu",)), **known), NOW)
    rows = [line for line in report.text.splitlines() if line.startswith("| [`linux-")]
    assert len(rows) == (count if count <= MOST_OF_A_KIND else 1)
    assert "<br>" not in report.text
    if count > MOST_OF_A_KIND:
        page = "https://ghapp.example.com/orgs/acme/runners?pool=linux-4vcpu&state=invalidated"
        first = sorted(made, key=lambda each: each.confirmed_at)[:MOST_NAMED]
        names = ", ".join(f"[`{each.name}`](https://ghapp.example.com/orgs/acme/runners/{each.id})" for each in first)
        since = f"{time_of(NOW - 9, NOW)} to {time_of(NOW - 5, NOW)}"
        assert rows[0] == (
            f"| {names}, …; [{count} in all]({page}) | invalidated | {since} | RegistrationInvalidated | `linux-4vcpu` "
            f"| `linux-4vcpu` | waiting (fuse) since {since}: the fuse is stopped: {FUSE_REASONS[STOPPED.reason]} |"
        )


def test_few_alike_beside_many_have_a_row_each_and_what_differs_is_not_named():
    many_lost = [lost(number, custom_labels=("linux-4vcpu", str(number % 2))) for number in range(6)]
    others = [lost(10, custom_labels=("gpu",), labels=("gpu",)), present(11), requested(12, NOW)]
    rules = [PoolSettings(org="acme", name="linux-4vcpu", labels=("linux-4vcpu",))]
    text = report_on(fleet(*many_lost, *others, rules=rules), NOW).text
    rows = [line for line in text.splitlines() if line.startswith(("| `", "| [`"))]
    assert len(rows) == 4
    (grouped,) = [row for row in rows if "; 6 in all |" in row]
    assert "| `linux-4vcpu` | different ones | waiting since" in grouped


def test_the_title_names_the_pool_of_what_is_wrong_where_there_are_several():
    gpu = online(9, custom_labels=("gpu",))
    assert report_on(fleet(lost(1), online(2)), NOW).title == "1 of 2 runners lost"
    assert report_on(fleet(lost(1), online(2), gpu), NOW).title == "1 of 2 runners lost (linux-4vcpu)"
    in_both = report_on(fleet(lost(1), online(2), lost(8, custom_labels=("gpu",)), gpu), NOW)
    assert in_both.title == "2 runners lost"


def test_numbers_that_are_posted_later_have_their_time_in_the_title_which_causes_no_post():
    """ "1 job without a runner" was read while two waited: the second one is posted with the numbers, in 10 minutes."""
    first, later = (report_on(fleet(online(1), present(2)), at) for at in (NOW, NOW + 60))
    assert first.title == f"1 runner offline, as of {clock_time(NOW)}"
    assert later.title == f"1 runner offline, as of {clock_time(NOW + 60)}"
    assert first.digest == later.digest
    assert report_on(fleet(online(1)), NOW).title == "1 runner healthy"


makers = st.sampled_from([online, present, suspect, lost, replaced, starting, unknown])


@given(st.lists(st.tuples(makers, st.sampled_from(["a", "b", "c"])), max_size=40))
def test_the_counts_add_up(made):
    runners = [make(number)._replace(custom_labels=(pool,)) for number, (make, pool) in enumerate(made, 1)]
    report = report_on(fleet_of(*runners), NOW)
    table = report.summary[report.summary.index("| Pool") :]
    rows = [[int(cell) for cell in re.findall(r"\| (\d+) (?=\|)", line)] for line in table.splitlines()[2:]]
    has_healed = "Healed, 24 h" in table
    counts = [row if has_healed else [*row, 0] for row in rows]
    columns = [cell.strip() for cell in table.splitlines()[0].split("|")[2:-1]]
    suspects = [row[columns.index("Suspect")] if "Suspect" in columns else 0 for row in rows]
    assert all(total + left == sum(states) for (total, *states, _), left in zip(counts, suspects, strict=True))
    assert sum(total + healed for total, *_, healed in counts) + sum(suspects) == len(runners)


DEMAND = PoolDemand("linux-4vcpu", 4, 2, 3, 1, unserved=2, oldest_queued_at=LONG_AGO)


def test_jobs_are_shown_by_pool_and_do_not_cause_a_post():
    quiet = report_on(fleet(demand=[]), NOW)
    report = report_on(fleet(demand=[DEMAND]), NOW)
    assert f"| `linux-4vcpu` | 4 | 2 | {SINCE} | 1 | 2 |" in report.summary
    assert report.summary.endswith(report.volatile)
    assert report.digest == quiet.digest == report_on(fleet(demand=[DEMAND]), NOW + 1).digest


def test_a_pool_without_jobs_and_online_runners_has_no_row():
    assert report_on(fleet(demand=[PoolDemand("idle", 0, 0, 0, 0)]), NOW).volatile == ""


def test_jobs_that_no_online_runner_can_take_are_counted_by_pool_and_reason():
    jobs = [unserved(1, NOW - 400), unserved(2, NOW - 500), unserved(3, NOW - 600, QueueReason.POOL_PAUSED, "gpu")]
    report = report_on(fleet(unserved=jobs), NOW)
    assert report.title == f"3 jobs without a runner, as of {clock_time(NOW)}"
    assert f"| `linux-4vcpu` | RunnersOffline | 2 | {time_of(NOW - 500, NOW)} |" in report.text
    assert f"| `gpu` | PoolPaused | 1 | {time_of(NOW - 600, NOW)} |" in report.text
    assert report.digest != report_on(fleet(unserved=jobs[:2]), NOW).digest


def test_the_jobs_of_many_pools_fit_into_githubs_limits():
    pools = [DEMAND.__class__(f"{'p' * 90}{number}", 1, 0, 1, 0) for number in range(2_000)]
    jobs = [unserved(number, NOW - 400, pool=f"{'p' * 90}{number}") for number in range(2_000)]
    runners = [lost(number, custom_labels=(f"{'l' * 60}{number}",)) for number in range(1, 900)]
    report = report_on(fleet(*runners, demand=pools, unserved=jobs), NOW)
    assert len(report.summary) <= LONGEST
    assert len(report.text) <= LONGEST
    assert "more pools, which do not fit here" in report.volatile


@pytest.mark.parametrize(
    ("runners", "changes", "is_urgent"),
    [
        ((online(1), online(2), starting(3), starting(4)), {}, False),
        ((online(1), suspect(2)), {}, False),
        ((), {}, False),
        ((online(1), replaced(3)), {}, False),
        ((online(1), suspect(2, absent_since=NOW - 301)), {}, True),
        ((online(1), lost(2)), {}, True),
        ((online(1), unknown(2)), {}, True),
        ((online(1), online(2)), {"fuses": {"linux-4vcpu": STOPPED}}, True),
        ((online(1), online(2)), {"org_pause": PAUSE}, True),
        ((online(1), online(2)), {"survey": survey(failing_since=NOW - 60, failure="RateLimited")}, True),
    ],
)
def test_what_is_wrong_is_posted_at_once_and_the_turnover_of_a_busy_fleet_is_not(runners, changes, is_urgent):
    before, after = report_on(fleet(online(1), online(2)), NOW), report_on(fleet_of(*runners, **changes), NOW)
    assert before.digest != after.digest
    assert (before.urgent != after.urgent) is is_urgent


def test_the_outcome_of_a_button_is_news_of_a_kind_of_its_own():
    press = PressedButton("Sweep now", NOW - 5, "mona", "found no suspect")
    before, after, later = (
        dict(report_on(fleet_of(online(1), pressed=each), NOW).urgent)
        for each in (None, press, press._replace(outcome="found 1 suspect"))
    )
    assert after.keys() - before.keys() == {PRESS}
    assert {kind for kind in after if after[kind] != before.get(kind)} == {PRESS}
    assert {kind for kind in after if after[kind] != later[kind]} == {PRESS}


def test_each_step_of_a_loss_is_posted_at_once():
    steps = (lost(2), lost(2, granted_at=NOW), requested(2, NOW), replaced(2))
    assert len({report_on(fleet(online(1), each), NOW).urgent for each in steps}) == len(steps)


def test_no_runner_is_called_present_while_the_state_of_all_is_unknown():
    text = report_on(
        fleet(
            runners=[online(1, observed_at=LONG_AGO), online(2, observed_at=LONG_AGO)],
            survey=survey(swept_at=NOW - 301),
        ),
        NOW,
    ).text
    assert "No runner is known to be offline or invalidated; 2 are unknown." in text


@pytest.mark.parametrize(
    ("changes", "is_incident"),
    [
        ({"runners": [online(1)]}, False),
        ({"runners": [online(1), present(2)]}, False),
        ({"runners": [online(1), lost(2)]}, True),
        ({"runners": [online(1)], "fuses": {WHOLE: proving()}}, True),
        ({"runners": [online(1)], "survey": survey(failing_since=NOW - 9, failure="PermissionMissing")}, True),
    ],
    ids=["all well", "offline", "lost", "a fuse", "blind"],
)
def test_a_loss_a_fuse_and_blindness_are_posted_however_often_they_change(changes, is_incident):
    assert report_on(fleet(**changes), NOW).is_incident is is_incident


PAGES = "https://ghapp.example.com/orgs/acme"


def test_a_headline_has_its_time_and_its_page():
    changes = {"pages_url": "https://ghapp.example.com", "unserved": [unserved(1, LONG_AGO)], "phantoms": [PHANTOM]}
    report = report_on(fleet_of(online(1), present(2), **changes), NOW)
    jobs, phantom, offline = report.summary.removeprefix(report.as_of).splitlines()[:3]
    assert f"** Since {SINCE}. See" in jobs
    assert jobs.endswith(
        f": `ghapp jobs --unserved --org acme` [Page Jobs]({PAGES}/jobs?state=unserved&pool=linux-4vcpu)."
    )
    assert phantom.endswith(f" [Page Overview]({PAGES}#cluster).")
    assert offline.endswith(f" [Page Runners]({PAGES}/runners?pool=linux-4vcpu&state=offline).")
    assert report.page == "jobs?state=unserved&pool=linux-4vcpu", "of the worst"
    assert report_on(fleet(online(1)), NOW).page == "", "the overview, if all is well"


def test_names_lead_to_their_pages():
    death = DeathSummary("linux-7", NOW, Cause.HOST_OOM, "OOMKilled")
    changes = {"unserved": [unserved(1, LONG_AGO)], "phantoms": [PHANTOM], "deaths": [death]}
    runners = [online(1), present(2), replaced(3)]
    text = report_on(fleet_of(*runners, pages_url="https://ghapp.example.com", **changes), NOW).text
    for link in (
        f"| [`linux-2`]({PAGES}/runners/2) | offline |",
        f"| [`linux-3`]({PAGES}/runners/3) | `linux-4vcpu` | RegistrationInvalidated |",
        f"[`runners/linux-1`]({PAGES}/runners/1)",
        f"[`linux-7`]({PAGES}/deaths/linux-7)",
        f"| RunnersOffline | [1]({PAGES}/jobs?state=unserved&pool=linux-4vcpu) |",
    ):
        assert link in text


def test_rows_that_do_not_fit_are_behind_a_link():
    runners = [present(number, custom_labels=(f"pool-{number}",)) for number in range(700)]
    text = report_on(fleet(*runners, pages_url="https://ghapp.example.com"), NOW).text
    assert len(text) <= LONGEST
    assert re.search(rf"… and \[\d+ more rows of runners\]\({PAGES}/runners\), which do not fit here\.$", text)
