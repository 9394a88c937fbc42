"""The texts of notifications."""

import pytest

from ghapp.notifications.conditions import Change, Topic
from ghapp.notifications.texts import Message, headline_of, lasted, message
from ghapp.report.headline import Headline, HeadlineKind
from ghapp.report.headline import Severity as HeadlineSeverity

AT = 1_790_000_000.0
TRIPPED = Change(Topic.FUSE, "linux", "proving", "", AT, AT, 40, "MassLoss")


def test_the_text_for_a_tripped_fuse():
    assert message("acme", TRIPPED, link="https://ghapp.example.com") == Message(
        "ghapp: acme: the fuse of pool linux tripped",
        "40 runners lost, without a successor online. Reason: MassLoss.\n"
        "ghapp replaces a first batch, and continues when the replacements are online.\n"
        "https://ghapp.example.com",
        "warning",
    )


def test_the_text_for_a_stopped_fuse_names_the_command():
    stopped = TRIPPED._replace(level="stopped", affected=1, detail="BatchNeverOnline")
    assert message("acme", stopped) == Message(
        "ghapp: acme: the fuse of pool linux stopped: replacing runners did not help",
        "1 runner lost, without a successor online. Reason: BatchNeverOnline.\n"
        "Check the controller that replaces these runners, then run `ghapp resume acme --pool linux`.",
        "failure",
    )


def test_the_text_for_the_installations_fuse_names_the_command_for_the_organization():
    body = message("acme", TRIPPED._replace(subject="*", level="stopped")).body
    assert body.endswith("run `ghapp resume acme`.")


def test_the_text_for_the_installations_fuse_counts_no_runners_if_all_lost_ones_are_of_repositories():
    whole = TRIPPED._replace(subject="*", affected=0)
    body = message("acme", whole).body
    assert body.startswith("No runner of the account itself is lost; those of its repositories count, too. Reason: ")
    closed = message("acme", whole._replace(level="", before="proving", at=AT + 840, detail="Healed"))
    assert closed.body == "Reason: Healed."


def test_the_text_for_a_closed_fuse_has_the_number_replaced_and_the_duration():
    closed = TRIPPED._replace(level="", before="proving", at=AT + 840, detail="Healed")
    assert message("acme", closed, replaced=40) == Message(
        "ghapp: acme: the fuse of pool linux closed after 14 min",
        "40 runners replaced since 2026-09-21 14:13 UTC. Reason: Healed.",
        "success",
    )


def test_the_text_for_a_missing_complete_list():
    blind = Change(Topic.BLIND, "", "open", "", AT, AT + 301, 0, "RateLimited")
    assert message("acme", blind) == Message(
        "ghapp: acme: no complete list of runners",
        "The last complete list of runners is from 2026-09-21 14:13 UTC. Reason: RateLimited.\n"
        "Until there is one, ghapp removes and replaces no runner. Run `ghapp doctor`.",
        "failure",
    )
    assert (
        message("acme", blind._replace(level="", at=AT + 720)).title
        == "ghapp: acme: runners are visible again after 12 min"
    )


def test_the_text_for_jobs_that_no_runner_can_take():
    unserved = Change(Topic.UNSERVED, "gpu", "open", "", AT, AT, 3, "gpu-large, windows")
    assert message("acme", unserved) == Message(
        "ghapp: acme: 3 jobs wait for pool gpu that no runner can take",
        "Waiting since 2026-09-21 14:13 UTC: gpu-large, windows.\nRun `ghapp jobs --unserved`.",
        "warning",
    )
    others = message("acme", unserved._replace(affected=1, subject=""))
    assert others.title == "ghapp: acme: 1 job waits for other pools that no runner can take"
    over = message("acme", unserved._replace(level="", at=AT + 60))
    assert over == Message(
        "ghapp: acme: no job waits for pool gpu any more that no runner can take, after 1 min",
        "The most that waited at a time: 3.",
        "success",
    )


def test_the_text_for_a_failed_gate():
    failed = Change(Topic.GATE, "linux/pink", "open", "", AT, AT, 0, "0123abc")
    assert message("acme", failed) == Message(
        "ghapp: acme: the gate of shard pink of pool linux failed",
        "Deployed: 0123abc.\nRun `ghapp gate acme linux pink` for the checks and next steps.",
        "failure",
    )
    assert message("acme", failed._replace(level="", at=AT + 7260)).body == "Failed for 2 h 1 min."


@pytest.mark.parametrize(
    ("level", "detail", "title", "severity"),
    [
        ("notice", "2026-10-05", "version 2.335.1 of the runner gets jobs until 2026-10-05 only", "info"),
        ("warning", "2026-10-05", "version 2.335.1 of the runner gets jobs until 2026-10-05 only", "warning"),
        ("warning", "", "version 2.335.1 of the runner gets no jobs any more soon", "warning"),
        ("action", "2026-10-05", "version 2.335.1 of the runner gets no jobs any more since 2026-10-05", "failure"),
        ("action", "", "version 2.335.1 of the runner gets no jobs any more", "failure"),
    ],
)
def test_the_text_for_a_version_that_ends(level, detail, title, severity):
    change = Change(Topic.VERSION, "2.335.1", level, "", AT, AT, 3, detail)
    body = "3 runners online with this version.\nRun `ghapp versions --org acme` for what to do."
    assert message("acme", change) == Message(f"ghapp: acme: {title}", body, severity)
    over = message("acme", change._replace(level="", at=AT + 7260))
    assert (over.body, over.severity) == ("Reported for 2 h 1 min.", "success")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "0 s"), (0.4, "0 s"), (59, "59 s"), (60, "1 min"), (3599, "59 min 59 s"), (3600, "1 h"), (90_061, "1 d 1 h")],
)
def test_a_span_is_shown_in_its_two_largest_units(seconds, text):
    assert lasted(TRIPPED._replace(at=AT + seconds)) == text


POOL_LOST = Headline(HeadlineKind.LOST, HeadlineSeverity.CRITICAL, "4 of 9 runners of gpu are lost: …", pool="gpu")
BLIND_NOW = Headline(HeadlineKind.BLIND, HeadlineSeverity.CRITICAL, "Runners cannot be read: …")
SLASH = POOL_LOST._replace(pool="team/arm", sentence="1 of 2 runners of team/arm is lost: …")
BLUE, PINK = (
    Headline(HeadlineKind.GATE, HeadlineSeverity.ATTENTION, f"The gate of {each} …", pool="rollout", shard=each)
    for each in ("blue", "pink")
)
STUCK, NO_POOL = (
    Headline(HeadlineKind.UNSERVED, HeadlineSeverity.ATTENTION, f"1 job for {each or 'no pool'} …", pool=each)
    for each in ("linux", "")
)
EVERYTHING = [BLIND_NOW, POOL_LOST, SLASH, STUCK, NO_POOL, BLUE, PINK]


@pytest.mark.parametrize(
    ("topic", "subject", "level", "sentence"),
    [
        (Topic.FUSE, "gpu", "stopped", POOL_LOST.sentence),
        (Topic.FUSE, "*", "proving", POOL_LOST.sentence),
        (Topic.FUSE, "arm", "stopped", ""),
        (Topic.FUSE, "gpu", "", ""),
        (Topic.BLIND, "", "open", BLIND_NOW.sentence),
        (Topic.FUSE, "team/arm", "stopped", SLASH.sentence),
        (Topic.GATE, "rollout/pink", "open", PINK.sentence),
        (Topic.GATE, "rollout/green", "open", ""),
        (Topic.UNSERVED, "linux", "open", STUCK.sentence),
        (Topic.UNSERVED, "gpu", "open", POOL_LOST.sentence),
        (Topic.UNSERVED, "linux in acme/api", "open", STUCK.sentence),
        (Topic.UNSERVED, "gpu-with-a-typo", "open", NO_POOL.sentence),
    ],
)
def test_a_message_begins_with_the_headline_that_all_surfaces_show(topic, subject, level, sentence):
    change = Change(topic, subject, level, "", 1_790_000_000.0, 1_790_000_000.0, 4, "MassLoss")
    found = headline_of(change, EVERYTHING)
    assert (found.sentence if found else "") == sentence
    first = message("acme", change, headline=found).body.splitlines()[0]
    assert (first == sentence) is bool(sentence)


def test_names_in_a_headline_are_text_to_every_receiver():
    change = Change(Topic.FUSE, "gpu", "stopped", "", 1_790_000_000.0, 1_790_000_000.0, 4, "MassLoss")
    assert (
        "<!channel>" not in message("acme", change, headline=POOL_LOST._replace(sentence="Paused by <!channel>.")).body
    )


def test_a_step_that_is_taken_at_github_has_its_address():
    change = Change(Topic.BLIND, "", "open", "", 1_790_000_000.0, 1_790_000_000.0, 4, "PermissionMissing")
    grant = BLIND_NOW._replace(step="an owner grants it", link="https://github.com/organizations/acme/settings")
    assert message("acme", change, headline=grant).body.splitlines()[1] == f"An owner grants it: {grant.link}"
