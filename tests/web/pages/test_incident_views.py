"""The content of the pages of incidents as a pure function of the stored data."""

from __future__ import annotations

import pytest

from ghapp.incidents.incident import FuseStep, LossEnd, LossIncident, RunnerLoss, incident_of
from ghapp.incidents.interruptions import PauseChange, interruptions_of
from ghapp.incidents.page_views import (
    MOST_ENTRIES,
    MOST_FIRST,
    MOST_NAMED,
    MOST_ROWS,
    TOGETHER_SECONDS,
    IncidentFuse,
    incident_page,
    incidents_page,
    open_incidents,
)
from ghapp.incidents.texts import ENDS, PROOFS, state_of, title_of
from ghapp.remediation.fuse import FUSE_REASONS, Fuse, FuseReason, Position
from ghapp.remediation.pause import Pause
from ghapp.report.documents import timestamp
from ghapp.runners.evidence import Survey
from ghapp.runners.verdict import Reason
from ghapp.settings import PoolSettings
from ghapp.web.pages.views.overview import items_about, overview
from ghapp.web.pages.views.paging import PAGE_SIZE
from ghapp.wording import time_of
from tests.report.fleets import fleet_of
from tests.rules.builders import lost
from tests.web.conftest import NOW

POOL = "linux-4vcpu"
RULES = (PoolSettings("acme", POOL, ("linux-4vcpu",)),)
HEALED = LossEnd.SUCCESSOR_ONLINE


def loss(runner=1, end=LossEnd.OPEN, ended=None, **changes):
    """Missing for 100 s, confirmed 60 s ago, granted at once, accepted 50 s ago."""
    usual = RunnerLoss(
        runner,
        f"linux-{runner}",
        POOL,
        NOW - 100,
        first_404_at=NOW - 90,
        confirmed_at=NOW - 60,
        granted_at=NOW - 60,
        accepted_at=NOW - 50,
        end=end,
        ended_at=None if ended is None else NOW - ended,
    )
    return usual._replace(**changes)


def healed(runner=1, ended=40):
    return loss(runner, HEALED, ended, successor=1000 + runner)


def step(before, position, reason=FuseReason.NONE, pool=POOL, **more):
    return FuseStep(NOW - before, pool, position, reason, **more)


TRIP = step(58, Position.PROVING, FuseReason.MASS_LOSS, batch=3, lost=12, expected=40)
STOP = step(20, Position.STOPPED, FuseReason.BATCH_NEVER_ONLINE)
CLOSE = step(10, Position.CLOSED, FuseReason.HEALED)


def incident(*losses, steps=(), identifier="i"):
    return incident_of(identifier, losses, steps)


def listed(*incidents, page=1):
    return incidents_page({each.id: each for each in incidents}, page, NOW)


# The list.


@pytest.mark.parametrize(
    ("one", "state"),
    [
        (incident(loss()), "open"),
        (incident(loss(), steps=[TRIP]), "open"),
        (incident(loss(), steps=[TRIP, STOP]), "stopped"),
        (incident(healed(), steps=[TRIP]), "open"),
        (incident(healed(), steps=[TRIP, CLOSE]), "healed"),
        (incident(healed(), loss(2, LossEnd.RETURNED, 30)), "healed"),
        (incident(healed(), loss(2, LossEnd.NOT_NEEDED, 30)), "ended"),
    ],
    ids=["open", "proving", "stopped", "fuse alone", "closed", "returned", "written off"],
)
def test_an_incident_has_one_state(one, state):
    assert state_of(one) == state


def test_open_incidents_come_first_then_completed_ones_the_latest_first():
    over = [incident(healed(each, ended), identifier=str(each)) for each, ended in ((1, 50), (2, 40))]
    page = listed(*over, incident(loss(3), identifier="3"))
    assert ([each.id for each in page.open], [each.id for each in page.over]) == (["3"], ["2", "1"])
    assert not page.good
    assert page.sentence == "1 incident is open: 1 runner has no successor online yet."


@pytest.mark.parametrize(
    ("incidents", "sentence", "good"),
    [
        ([], "No runner was lost in the last month.", True),
        ([incident(healed())], "No incident is open; 1 incident of the last month is over.", True),
        ([incident(healed(), steps=[TRIP])], "1 incident is open: all are replaced.", False),
    ],
    ids=["no incident", "completed", "replaced"],
)
def test_the_last_month_is_summarized_in_one_sentence(incidents, sentence, good):
    page = listed(*incidents)
    assert (page.sentence, page.good) == (sentence, good)


def test_a_line_has_the_counts_and_how_the_losses_ended():
    (line,) = listed(incident(healed(1, 40), healed(2, 20), loss(3, LossEnd.RETURNED, 50))).over
    assert (line.title, line.state, line.lost, line.still_lost) == (f"3 runners lost in {POOL}", "healed", 3, 0)
    assert [(each.losses, each.code) for each in line.ends] == [(2, "SuccessorOnline"), (1, "Returned")]
    assert (line.lasted, line.typical_heal, line.fuse) == ("1 min 20 s", "1 min 10 s", "")


def test_a_merged_incident_is_not_listed():
    page = listed(incident(loss()), LossIncident("old", POOL, NOW, NOW, merged_into="i"))
    assert (len(page.open), len(page.over)) == (1, 0)


@pytest.mark.parametrize(("given", "shown", "first"), [(1, 1, PAGE_SIZE), (2, 2, 0), (3, 2, 0), (0, 1, PAGE_SIZE)])
def test_the_list_has_pages(given, shown, first):
    many = [incident(healed(each, 40 - each / 10), identifier=str(each)) for each in range(PAGE_SIZE + 1)]
    page = listed(*many, page=given)
    assert (page.paging.page, page.paging.pages, page.paging.matching) == (shown, 2, PAGE_SIZE + 1)
    assert page.over[0].id == str(first)


def test_several_pools_are_counted_in_the_title():
    assert (
        title_of(incident(loss(1), loss(2, pool="b"), steps=[TRIP._replace(pool="*")])) == "2 runners lost in 2 pools"
    )


def test_the_open_incident_of_each_pool_is_found():
    whole = incident(loss(1), loss(2, pool="b"), steps=[TRIP._replace(pool="*")], identifier="w")
    over = incident(healed(3), identifier="o")
    assert open_incidents({"w": whole, "o": over}) == {POOL: "w", "b": "w", "*": "w"}


# One incident.


def texts(one, names=None):
    return [(each.kind, each.text, each.code) for each in incident_page(one, names or {}, NOW).entries]


def test_the_time_line_of_a_loss_goes_from_its_first_evidence_to_its_successor():
    assert texts(incident(healed())) == [
        ("first", "1 runner first missing: not in GitHub's list, or not found", ""),
        ("missing", "GitHub answered 404 for 1 runner: confirmation began", ""),
        (
            "confirmed",
            "1 runner confirmed as lost by a second 404: registration deleted by GitHub",
            "RegistrationInvalidated",
        ),
        ("granted", "Replacement granted for 1 runner", ""),
        ("accepted", "Replacement request accepted for 1 runner", ""),
        ("online", "1 successor online", "SuccessorOnline"),
        ("over", "Healed after 1 min", ""),
    ]


def test_an_entry_of_a_fuse_has_its_change_and_the_reason():
    batch = step(40, Position.PROVING, FuseReason.BATCH_ONLINE, batch=6)
    resumed = step(15, Position.PROVING, FuseReason.RESUMED, batch=3, by="mona")
    steps = [TRIP._replace(lost=1, expected=4), batch, STOP, resumed, CLOSE]
    fuse_entries = [each for each in texts(incident(loss(), steps=steps)) if "fuse" in each[0]]
    assert fuse_entries == [
        (
            "fuse-proving",
            f"The fuse of {POOL} tripped: too many runners were lost at once (1 of 4); a batch of up to 3 runners",
            "MassLoss",
        ),
        (
            "fuse-proving",
            (
                f"The fuse of {POOL} goes on: runners that came since the last batch, or jobs, show that "
                "replacing helps; a batch of up to 6 runners"
            ),
            "BatchOnline",
        ),
        (
            "fuse-stopped",
            (
                f"The fuse of {POOL} stopped: no runner came online after the last batch, beyond the pool's own newcomers; nothing more is replaced until an "
                "admin resumes it"
            ),
            "BatchNeverOnline",
        ),
        (
            "fuse-proving",
            f"The fuse of {POOL} proves again: an admin resumed it (mona); a batch of up to 3 runners",
            "Resumed",
        ),
        (
            "fuse-closed",
            f"The fuse of {POOL} closed: replacing helped, and no loss waits for it",
            "Healed",
        ),
    ]


@pytest.mark.parametrize(("apart", "entries"), [(TOGETHER_SECONDS, 1), (TOGETHER_SECONDS + 0.001, 2)])
def test_events_close_in_time_are_one_entry(apart, entries):
    one = incident(loss(1), loss(2, first_at=NOW - 100 + apart))
    assert sum(each.kind == "first" for each in incident_page(one, {}, NOW).entries) == entries


def test_an_entry_names_a_bounded_number_of_runners_and_counts_the_others():
    one = incident(*map(loss, range(MOST_NAMED + 3)), loss(99, first_at=NOW - 200))
    _, first, *_ = incident_page(one, {}, NOW).entries
    assert (first.kind, len(first.runners), first.hidden_count) == ("first", MOST_NAMED, 3)


def test_an_entry_of_all_lost_runners_names_none_and_successors_are_named():
    page = incident_page(incident(healed(1), healed(2)), {1001: "linux-new"}, NOW)
    named = {each.kind: [runner.name for runner in each.runners] for each in page.entries}
    assert (named["first"], named["online"]) == ([], ["linux-new", "1002"])


def test_the_batches_of_a_fuse_are_entries_of_their_own_after_its_change():
    batch = step(55, Position.PROVING, FuseReason.BATCH_ONLINE, batch=6)
    trip = TRIP._replace(at=NOW - 60)
    page = incident_page(incident(loss(1), loss(2, granted_at=NOW - 55), steps=[trip, batch]), {}, NOW)
    kinds = [each.kind for each in page.entries]
    assert kinds[3:] == ["fuse-proving", "granted", "fuse-proving", "granted", "accepted"]


@pytest.mark.parametrize(
    ("seconds", "after"),
    [
        (0, ""),
        (0.9, ""),
        (1, "1 s"),
        (59, "59 s"),
        (60, "1 min"),
        (61, "1 min 1 s"),
        (899, "14 min 59 s"),
        (900, "15 min"),
        (7260, "2 h 1 min"),
    ],
)
def test_an_entry_has_its_time_of_day_and_the_time_since_the_first_evidence(seconds, after):
    began = NOW - 10_000
    one = incident(
        loss(1, first_at=began, first_404_at=None, confirmed_at=began + seconds, granted_at=None, accepted_at=None)
    )
    _, confirmed = incident_page(one, {}, NOW).entries
    assert confirmed.after == after
    assert confirmed.clock == confirmed.iso.replace("T", " ").replace("Z", " UTC")


def test_an_entry_of_several_events_has_its_first_and_its_last_time():
    first, *_ = incident_page(incident(loss(1), loss(2, first_at=NOW - 80)), {}, NOW).entries
    assert first.after == "0 s to 20 s"


@pytest.mark.parametrize(("losses", "left_out"), [(MOST_ENTRIES, 0), (MOST_ENTRIES + 3, 3)])
def test_a_very_long_time_line_omits_its_middle(losses, left_out):
    apart = [
        loss(
            each,
            first_at=NOW - 90_000 + each * 60,
            first_404_at=None,
            confirmed_at=None,
            granted_at=None,
            accepted_at=None,
        )
        for each in range(losses)
    ]
    entries = incident_page(incident(*apart), {}, NOW).entries
    assert len(entries) == MOST_ENTRIES + (left_out > 0)
    gaps = [(at, each.text) for at, each in enumerate(entries) if each.kind == "gap"]
    assert gaps == ([(MOST_FIRST, "3 entries are left out here")] if left_out else [])


def test_a_runner_whose_record_was_deleted_has_no_link():
    page = incident_page(incident(healed()), {1001: "linux-new"}, NOW)
    (row,) = page.rows
    assert (row.runner.name, row.runner.known) == ("linux-1", False)
    assert (row.successor.name, row.successor.known) == ("linux-new", True)


def test_open_losses_are_the_first_of_a_bounded_number_of_rows():
    page = incident_page(incident(*(healed(each) for each in range(MOST_ROWS)), loss(MOST_ROWS)), {}, NOW)
    assert (page.rows[0].runner.id, len(page.rows), page.more_rows) == (MOST_ROWS, MOST_ROWS, 1)


def test_the_cards_have_the_counts_and_the_times_to_heal():
    page = incident_page(
        incident(healed(1, 90), healed(2, 40), healed(3, 30), loss(4, granted_at=NOW - 58), steps=[TRIP]), {}, NOW
    )
    assert (page.lost, page.still_lost, page.healed) == (4, 1, 3)
    assert (page.heal, page.longest_heal) == ("1 min", "1 min 10 s")
    assert page.fuses == (IncidentFuse(POOL, "proving", 1, FUSE_REASONS[FuseReason.MASS_LOSS], "MassLoss"),)
    assert page.sentence == "4 runners were lost, the first 1 min ago; 1 has no successor online yet."


def test_losses_that_a_fuse_counted_before_this_incident_are_counted_apart():
    two = incident(loss(1), loss(2, confirmed_at=NOW - 30), loss(3, pool="b"), loss(4, first_at=NOW - 50), steps=[TRIP])
    assert [text for _, text, code in texts(two) if code == "MassLoss"] == [
        (
            f"The fuse of {POOL} tripped: too many runners were lost at once (it counted 12 of 40 within its window: "
            "2 of this incident, 10 lost before it or returned); a batch of up to 3 runners"
        )
    ]


def test_each_fuse_of_an_incident_is_named_with_its_own_position_batches_and_reason():
    batch = step(40, Position.PROVING, FuseReason.BATCH_ONLINE, batch=6)
    page = incident_page(
        incident(
            loss(granted_at=NOW - 58),
            *(loss(number, granted_at=NOW - 40) for number in (2, 3)),
            loss(4, pool="b"),
            steps=[TRIP, batch, CLOSE, STOP._replace(pool="*", at=NOW - 5)],
        ),
        {},
        NOW,
    )
    assert [(each.name, each.position, each.batches, each.code) for each in page.fuses] == [
        ("all pools", "stopped", 0, "BatchNeverOnline"),
        (POOL, "closed", 2, "Healed"),
    ]


ADMIN = Pause("lisa", "driver update", NOW - 500)


@pytest.mark.parametrize(
    ("one", "changes", "pauses", "survey", "shown"),
    [
        (loss(), [PauseChange(NOW - 30, "mona", "pause", "*", "why")], {}, {}, ["pause"]),
        (
            loss(),
            [PauseChange(NOW - 30, "mona", "pause", POOL), PauseChange(NOW - 9, "mona", "resume", POOL)],
            {},
            {},
            ["pause", "resume"],
        ),
        (loss(), [PauseChange(NOW - 30, "mona", "pause", "gpu")], {}, {}, []),
        (loss(), [PauseChange(NOW - 30, "mona", "pause", "gpu", until=NOW - 9)], {}, {}, []),
        (loss(), [PauseChange(NOW - 30, "mona", "pause", "*", until=NOW)], {}, {}, ["pause", "resume"]),
        (loss(), [PauseChange(NOW - 30, "mona", "pause", "*", until=NOW + 1)], {}, {}, ["pause"]),
        (loss(), [PauseChange(NOW - 300, "mona", "pause", POOL, until=NOW - 50)], {}, {}, ["pause", "resume"]),
        (loss(), [PauseChange(NOW - 300, "mona", "pause", POOL, until=NOW - 101)], {}, {}, []),
        (
            loss(),
            [PauseChange(NOW - 300, "mona", "pause", "*"), PauseChange(NOW - 9, "mona", "resume", "*")],
            {},
            {},
            ["pause", "resume"],
        ),
        (healed(), [PauseChange(NOW - 90, "mona", "pause", "*", until=NOW - 39)], {}, {}, ["pause"]),
        (healed(), [PauseChange(NOW - 90, "mona", "pause", "*", until=NOW - 40)], {}, {}, ["pause", "resume"]),
        (loss(), [PauseChange(NOW - 101, "mona", "pause", "*")], {}, {}, []),
        (healed(), [PauseChange(NOW - 39, "mona", "pause", "*")], {}, {}, []),
        (loss(), [], {"*": ADMIN}, {}, ["pause"]),
        (loss(), [], {"gpu": ADMIN}, {}, []),
        (healed(), [], {"*": ADMIN}, {}, []),
        (loss(), [], {"*": Pause("lisa", "driver update", NOW - 30)}, {}, []),
        (loss(), [], {}, {"blind": ((NOW - 200, NOW - 150), (NOW - 80, NOW - 30))}, ["blind", "sight"]),
        (loss(), [], {}, {"blind": ((NOW - 200, NOW - 100),)}, ["blind", "sight"]),
        (healed(), [], {}, {"blind": ((NOW - 50, NOW - 30),)}, ["blind"]),
        (healed(), [], {}, {"blind": ((NOW - 30, NOW - 20),)}, []),
        (loss(), [], {}, {"gaps": ((NOW - 300, NOW - 226), (NOW - 174, NOW - 100), (NOW - 80, NOW - 6))}, ["late"] * 2),
        (healed(), [], {}, {"gaps": ((NOW - 39, NOW - 1),)}, []),
        (loss(), [], {}, {"failing_since": NOW - 500, "failure": "GitHubUnavailable"}, ["blind"]),
        (healed(), [], {}, {"failing_since": NOW - 5, "failure": "GitHubUnavailable"}, []),
    ],
)
def test_pauses_and_time_without_a_list_are_part_of_the_time_line_while_the_incident_lasts(
    one, changes, pauses, survey, shown
):
    found = interruptions_of(incident(one), changes, pauses, Survey(**survey), NOW)
    assert [each.kind for each in found] == shown
    kinds = [each.kind for each in incident_page(incident(one), {}, NOW, found).entries]
    assert [kind for kind in kinds if kind in ("pause", "resume", "blind", "sight", "late")] == shown


def test_the_time_before_a_late_list_is_shown_with_its_begin_end_and_length():
    (found,) = interruptions_of(incident(loss()), [], {}, Survey(gaps=((NOW - 80, NOW - 6),)), NOW)
    begin, end = time_of(NOW - 80, NOW - 6), time_of(NOW - 6, NOW)
    assert found.text == f"No complete list of runners from {begin} to {end}, 1 min 14 s: the next sweep was late"


def test_a_pause_is_shown_with_who_paused_what_and_why():
    changes = [
        PauseChange(NOW - 30, "mona", "pause", "*", "driver update"),
        PauseChange(NOW - 9, "lisa", "resume", POOL),
    ]
    assert [each.text for each in interruptions_of(incident(loss()), changes, {"*": ADMIN}, Survey(), NOW)] == [
        "Remediation of all pools was paused already, by lisa: driver update; nothing is replaced",
        "mona paused remediation of all pools: driver update; nothing is replaced",
        f"lisa resumed remediation of {POOL}",
    ]


def test_a_pause_that_was_there_is_extended_and_its_end_is_shown_with_the_date_of_another_day():
    changes = [
        PauseChange(NOW - 300, "lisa", "pause", POOL, "update", until=NOW - 20, result="paused"),
        PauseChange(NOW - 60, "mona", "pause", POOL, "update", until=NOW + 60, result="extended"),
        PauseChange(
            NOW - 30, "lisa", "pause", POOL, "disks", NOW + 86_400, "changed", "before without an end, for: update"
        ),
    ]
    until = [time_of(NOW + 60, NOW), time_of(NOW + 86_400, NOW)]
    assert [each.text for each in interruptions_of(incident(loss()), changes, {}, Survey(), NOW)] == [
        f"mona extended the pause of remediation of {POOL} until {until[0]}: update; nothing is replaced",
        (
            f"lisa changed the pause of remediation of {POOL} until {until[1]}: disks "
            "(before without an end, for: update); nothing is replaced"
        ),
    ]
    assert len(until[1]) > len(until[0])


@pytest.mark.parametrize(
    ("later", "ends"),
    [
        ([], [50]),
        ([PauseChange(NOW - 60, "lisa", "pause", POOL, until=NOW - 20)], [20]),  # the end was put off
        ([PauseChange(NOW - 60, "lisa", "pause", POOL)], []),  # until a person resumes
        ([PauseChange(NOW - 60, "lisa", "resume", POOL)], []),
        ([PauseChange(NOW - 60, "lisa", "resume", "*")], []),  # resumes the pools, too
        ([PauseChange(NOW - 60, "lisa", "resume", "gpu")], [50]),
        ([PauseChange(NOW - 50, "lisa", "resume", POOL)], [50]),  # it was over
        ([PauseChange(NOW - 40, "lisa", "pause", POOL, "again", NOW - 10)], [50, 10]),
        ([PauseChange(NOW + 5, "lisa", "resume", POOL)], [50]),
    ],
    ids=["alone", "put off", "without an end", "resumed", "all resumed", "another resumed", "late", "again", "future"],
)
@pytest.mark.parametrize("order", [1, -1])
def test_a_pause_that_ended_by_itself_ends_on_the_time_line_whatever_the_order_of_the_changes(later, ends, order):
    changes = [PauseChange(NOW - 90, "mona", "pause", POOL, "why", NOW - 50), *later][::order]
    found = interruptions_of(incident(loss()), changes, {}, Survey(), NOW)
    text = f"The pause of remediation of {POOL} ended by itself"
    assert [NOW - each.at for each in found if each.text == text] == ends


def test_what_holds_up_the_pools_of_an_incident_is_shown_with_who_acts_next():
    pause = Pause("lisa", "update", NOW - 30)
    fleet = fleet_of(lost(1), rules=RULES, pauses={POOL: pause, "gpu": pause}, mode="act", survey=Survey(NOW - 5, 1))
    items = items_about(fleet, {POOL}, NOW)
    assert [(each.sentence.partition(":")[0], each.who, each.incident) for each in items] == [
        (f"1 of 1 runner of {POOL} is lost", "A person has to act.", ""),
        (f"Remediation is paused in {POOL} by lisa", "A person has to act.", ""),
    ]


@pytest.mark.parametrize(
    ("one", "sentence"),
    [
        (incident(healed()), "1 runner was lost; healed after 1 min."),
        (incident(loss(1, LossEnd.AGED_OUT, 40)), "1 runner was lost; over after 1 min."),
        (
            incident(loss(), steps=[TRIP, STOP]),
            "1 runner was lost, the first 1 min ago; 1 has no successor online yet, and the fuse is stopped.",
        ),
        (incident(healed(), steps=[TRIP]), "1 runner was lost, and none waits; the fuse is not closed yet."),
    ],
    ids=["healed", "completed", "stopped", "fuse alone"],
)
def test_an_incident_is_summarized_in_one_sentence(one, sentence):
    assert incident_page(one, {}, NOW).sentence == sentence


@pytest.mark.parametrize(
    ("proof", "first"),
    [(Reason.REPLACED_WHILE_OFFLINE, "1 runner went offline"), (Reason.HANGS_AFTER_JOB, "1 runner first missing")],
)
def test_the_proof_of_a_loss_is_explained(proof, first):
    page = incident_page(incident(loss(proof=proof)), {}, NOW)
    assert page.entries[0].text.startswith(first)
    assert [(each.code, each.words) for each in page.proofs] == [(proof.value, PROOFS[proof])]


@pytest.mark.parametrize(
    ("one", "progress"),
    [
        (incident(loss(granted_at=None)), "1 lost, replacement granted for 0, 0 successors online, 1 open."),
        (
            incident(healed(1), loss(2), loss(3, LossEnd.AGED_OUT, 40), steps=[TRIP._replace(at=NOW - 60), STOP]),
            "3 lost, replacement granted for 3 in 1 batch, 1 successor online, 1 ended otherwise, 1 open.",
        ),
        (
            incident(loss(1), loss(2, granted_at=NOW - 58), steps=[TRIP, STOP]),
            "2 lost, replacement granted for 2, 1 of them in 1 batch, 0 successors online, 2 open.",
        ),
    ],
)
def test_an_incident_has_its_counts_above_the_time_line(one, progress):
    assert incident_page(one, {}, NOW).progress == progress


def test_of_batches_that_prove_the_same_the_last_one_says_it():
    goes_on = [TRIP._replace(at=NOW - 50 + at, reason=FuseReason.BATCH_ONLINE, batch=6) for at in range(3)]
    said = [each[1] for each in texts(incident(loss(), steps=[TRIP, *goes_on])) if "goes on" in each[1]]
    assert [FUSE_REASONS[FuseReason.BATCH_ONLINE] in each for each in said] == [False, False, True]


def test_each_code_has_a_text():
    assert set(FUSE_REASONS) == set(FuseReason)
    assert set(ENDS) == set(LossEnd)
    assert all(FUSE_REASONS[each] for each in FuseReason if each)
    assert all(ENDS.values())


def test_the_overview_links_a_fuse_to_its_incident():
    fuse = Fuse(Position.PROVING, NOW, reason=FuseReason.MASS_LOSS)
    page = overview(fleet_of(survey=Survey(NOW, 0), fuses={POOL: fuse}), NOW, {POOL: "i"})
    assert (page.headline.incident, page.others) == ("i", ())


def test_blindness_that_began_before_the_incident_has_its_own_time():
    found = interruptions_of(incident(loss()), [], {}, Survey(blind=((NOW - 200, NOW - 90),)), NOW)
    entries = incident_page(incident(loss()), {}, NOW, found).entries
    (blind,), (sight,) = ([each for each in entries if each.kind == kind] for kind in ("blind", "sight"))
    assert (blind.iso, blind.after) == (timestamp(NOW - 200), "")
    assert (sight.iso, sight.after) == (timestamp(NOW - 90), "10 s")
