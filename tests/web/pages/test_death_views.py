"""The content of the death pages as a pure function of the stored data and the visitor."""

from __future__ import annotations

from urllib.parse import parse_qsl

import pytest

from ghapp.deaths.cause import HAPPENED, Cause, not_yours
from ghapp.deaths.death import DeadJob, Death, Sighting
from ghapp.deaths.job_outcome import JobStep
from ghapp.deaths.job_story import StoryEvent, StoryStep
from ghapp.deaths.page_views import (
    CAUSES,
    DeathsQuery,
    RerunKnown,
    address_of,
    death_line,
    death_page,
    deaths_page,
    is_shown,
    pattern_sentence,
    read_query,
    refusal_here,
    with_latest,
)
from ghapp.deaths.patterns import DeathPattern, PatternKind
from ghapp.deaths.rerun import AUTO, WHY_NOT, Rerun, RerunNote, RerunRefusal, RerunRules, RerunState, why_not
from ghapp.deaths.store import identity
from ghapp.web.pages.views.deaths_chart import CHARTED, MOST_COUNTED
from ghapp.web.pages.views.paging import PAGE_SIZE, UnknownValueError
from tests.rules.builders import NOW

DAY = 86_400.0
JOB = DeadJob(70, "acme/api", "build", "a" * 40, "failure", "https://github.example/acme/api/actions/runs/1/job/70")
WORST = Death(
    "vm-1", "vm-1", "node-1", NOW - 60, 137, 9, "OOMKilled", Cause.HOST_OOM, "Raise `limits`.", "runners", "u1"
)
WORST = WORST._replace(pool="linux", job=JOB, runner_log=("a line",), host_log=("oom-kill",), image="runner:7")
GRANTED = RerunKnown(RerunRules(), granted=True)
SECOND = StoryEvent(NOW, StoryStep.NEXT_ATTEMPT, "attempt 2 of the run is job 71: queued", job_id=71)
NEVER = DeathsQuery()


def everything(_):
    return True


def only(*repositories):
    return lambda repository: repository in repositories


def died(number=1, ago=60.0, **changes):
    return WORST._replace(runner_name=f"vm-{number}", pod_uid=f"u{number}", at=NOW - ago)._replace(**changes)


def lines(*deaths):
    return with_latest(death_line(each, identity(each)) for each in deaths)


def page(*deaths, query=NEVER, reads=everything, **changes):
    return deaths_page(lines(*deaths), query, reads, NOW, **changes)


def names(*deaths, query, reads=everything):
    return [each.runner for each in page(*deaths, query=query, reads=reads).rows]


# The list.


@pytest.mark.parametrize(
    ("query", "found"),
    [
        (DeathsQuery("1"), ["vm-1"]),
        (DeathsQuery("7"), ["vm-1", "vm-2"]),
        (DeathsQuery("30"), ["vm-1", "vm-2", "vm-3"]),
        (DeathsQuery("30", cause="vanished"), ["vm-2"]),
        (DeathsQuery("30", pool="gpu"), ["vm-3"]),
        (DeathsQuery("30", node="node-2"), ["vm-2"]),
        (DeathsQuery("30", image="runner:8"), ["vm-3"]),
        (DeathsQuery("30", text="VM-2"), ["vm-2"]),
        (DeathsQuery("30", text="acme/shop"), ["vm-3"]),
        (DeathsQuery("30", text="OOMK"), ["vm-1", "vm-3"]),
        (DeathsQuery("30", text="71"), ["vm-3"]),
        (DeathsQuery("30", cause="vanished", pool="gpu"), []),
    ],
    ids=str,
)
def test_deaths_are_selected_by_period_cause_pool_node_image_and_text(query, found):
    shop = JOB._replace(id=71, repository="acme/shop")
    known = (
        died(1, DAY),
        died(2, 7 * DAY, cause=Cause.VANISHED, reason="PodGone", node="node-2"),
        died(3, 29 * DAY, pool="gpu", image="runner:8", job=shop),
    )
    assert names(*known, query=query) == found


def test_a_query_is_parsed_from_its_own_address_and_invalid_values_are_defaults():
    query = DeathsQuery("30", "vanished", "a b", "node&1", "img:7", "x", 2, "node")
    assert read_query(dict(parse_qsl(query.address()[1:]))) == query
    assert read_query({"days": "", "cause": "", "page": "0x", "by": ""}) == DeathsQuery()


@pytest.mark.parametrize("given", [{"days": "8"}, {"cause": "clean-exit"}, {"by": "image"}])
def test_an_unknown_filter_of_deaths_is_refused(given):
    ((name, value),) = given.items()
    with pytest.raises(UnknownValueError, match=f"^This page has no {name}={value}; "):
        read_query(given)
    assert DeathsQuery().address() == "?"
    assert "clean-exit" not in CAUSES


def test_deaths_are_counted_by_cause_pool_node_and_image_each_with_a_link():
    found = page(died(1), died(2, cause=Cause.CRASH), died(3, node="", pool="", image=""))
    assert [
        (each.title, [(line.value, line.deaths, line.percent) for line in each.lines]) for each in found.groups
    ] == [
        ("Cause", [("host-oom", 2, 100), ("crash", 1, 50)]),
        ("Pool", [("linux", 2, 100)]),
        ("Node", [("node-1", 2, 100)]),
        ("Image", [("runner:7", 2, 100)]),
    ]
    assert found.groups[2].lines[0].address == "?node=node-1"


def test_the_most_frequent_values_are_named_and_the_others_counted():
    found = page(*(died(number, node=f"node-{number}") for number in range(MOST_COUNTED + 2)), died(99, node="node-5"))
    group = next(each for each in found.groups if each.title == "Node")
    assert (len(group.lines), group.lines[0].value, group.others) == (MOST_COUNTED, "node-5", 2)


@pytest.mark.parametrize("by", CHARTED)
@pytest.mark.parametrize("days", ["1", "7", "30"])
def test_the_chart_has_each_death_of_the_list_and_no_other(days, by):
    hidden = died(4, job=JOB._replace(repository="acme/hidden"))
    ends = (
        0.0,
        -3600.0,
        1.0,
        DAY,
        DAY + 1,
        7 * DAY,
        7 * DAY + 1,
        30 * DAY,
        30 * DAY + 1,
    )  # the second is in the future
    known = [died(at + 10, ago, node=f"node-{at}", pool="" if at else "linux") for at, ago in enumerate(ends)]
    found = page(*known, hidden, query=DeathsQuery(days, by=by), reads=only("acme/api"))
    assert (
        sum(sum(each.values) for each in found.chart.series) == found.paging.matching == {"1": 4, "7": 6, "30": 8}[days]
    )
    assert [each.by for each in found.charts if each.current] == [by]
    assert [dict(parse_qsl(each.address[1:])).get("by") for each in found.charts] == [None, "pool", "node"]


def test_many_deaths_are_paged():
    found = page(*(died(number, number) for number in range(PAGE_SIZE + 1)), query=DeathsQuery(page=9))
    assert (found.paging.page, found.paging.pages, found.paging.first, found.paging.last, found.paging.previous) == (
        2,
        2,
        PAGE_SIZE + 1,
        PAGE_SIZE + 1,
        "?",
    )
    assert (page().rows, page().groups, page().paging.first) == ((), (), 0)


def test_an_earlier_death_of_a_runner_name_has_its_own_address():
    latest, earlier = lines(died(1), died(1, 600.0, pod_uid="u0"))
    assert address_of(latest) == "vm-1"
    assert address_of(earlier) == "vm-1?end=u0+1789999400.000+137"
    (odd,) = lines(died(1, runner_name="a/b c"))
    assert address_of(odd) == "a%2Fb%20c"


def test_deaths_of_jobs_of_hidden_repositories_are_only_counted():
    secret = JOB._replace(id=72, repository="acme/secret", name="launch")
    hidden = [
        died(number, number, job=secret, node="node-x", pool="secret-pool", image="secret:1", runner_name=f"s-{number}")
        for number in range(4)
    ]
    unknown = died(8, job=DeadJob(73, ""))
    idle = died(9, job=None)
    found = page(*hidden, died(1), unknown, idle, reads=only("acme/api"))
    assert [each.runner for each in found.rows] == ["vm-1", "vm-9"]
    assert (found.hidden, found.patterns) == (5, ())
    for word in ("secret", "launch", "node-x", "s-1"):
        assert word not in repr(found)
    assert page(*hidden).patterns != ()


@pytest.mark.parametrize(
    ("job", "shown"),
    [(JOB, True), (JOB._replace(repository="acme/secret"), False), (DeadJob(1, ""), False), (None, True)],
    ids=["its repository", "another one", "an unknown one", "no job"],
)
def test_a_death_is_visible_to_readers_of_its_jobs_repository(job, shown):
    assert is_shown(job, only("acme/api")) is shown


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (DeathPattern(PatternKind.NODE, "n", 3, NOW - 60, alone=False), "3 deaths within seven days are on node n."),
        (DeathPattern(PatternKind.NODE, "n", 3, NOW - 60, alone=True), "All 3 deaths within seven days are on node n."),
        (
            DeathPattern(PatternKind.POOL, "p", 4, NOW - 60, alone=True),
            "The last 4 deaths are all of pool p; the first was 1 min ago.",
        ),
        (
            DeathPattern(PatternKind.POOL, "p", 4, NOW - 60, alone=False),
            "4 deaths, none an hour after the last, are of pool p; the first was 1 min ago.",
        ),
        (DeathPattern(PatternKind.IMAGE, "i", 5, NOW, alone=False), "5 deaths within 24 hours are with image i."),
    ],
    ids=["node", "node-alone", "pool-alone", "pool", "image"],
)
def test_properties_that_deaths_have_in_common_are_a_sentence(pattern, text):
    assert pattern_sentence(pattern, NOW) == text


# One death.


def post_mortem(death=WORST, others=(), known=GRANTED, *, manages=True):
    return death_page(death, lines(death, *others), known, NOW, manages=manages, reads_node_logs=manages)


def test_the_page_explains_the_death_to_the_developer_and_the_fix_to_the_platform_team():
    found = post_mortem(WORST._replace(memory_limit="8Gi"))
    assert (found.happened, found.not_yours) == (HAPPENED[Cause.HOST_OOM], not_yours(Cause.HOST_OOM, ""))
    assert [(each.text, each.is_code) for each in found.advice] == [("Raise ", False), ("limits", True), (".", False)]
    assert (found.mark, found.job.name, found.job.url) == ("needed", "build", JOB.html_url)
    assert {each.name: each.value for each in found.facts} == {
        "Cause": "host-oom",
        "Reason": "OOMKilled",
        "Exit code": "137",
        "Signal": "9",
        "Pod": "runners/vm-1",
        "Node": "node-1",
        "Image": "runner:7",
        "Memory": "limit 8Gi, reached",
    }


def test_the_last_minutes_of_a_runner_are_in_order_of_time():
    seen = (Sighting(NOW - 300, "job-started"), Sighting(NOW, "job-ended"))
    assert [each.text for each in post_mortem(WORST._replace(last_minutes=seen)).moments] == [
        "The job started",
        "Its container ended",
        "GitHub ended the job",
    ]
    ends = [WORST._replace(exit_code=None), WORST._replace(exit_code=None, pod="", last_minutes=())]
    assert [[each.text for each in post_mortem(death).moments] for death in ends] == [
        ["Its pod was found missing"],
        ["It was lost, as its job shows"],
    ]


def test_the_page_says_what_a_death_has_in_common_with_earlier_ones():
    earlier = [died(number, 60.0 + number, job=None) for number in (2, 3)]
    assert post_mortem(others=earlier).common == (
        "It is death number 3 on node node-1 within seven days.",
        "It is death number 3 of pool linux in a row that began 1 min ago.",
    )
    assert post_mortem().common == ()


@pytest.mark.parametrize(
    ("job", "manages", "runner_log", "host_log", "hides"),
    [
        (JOB, True, ("a line",), ("oom-kill",), False),
        (JOB, False, ("a line",), (), False),
        (None, True, ("a line",), ("oom-kill",), False),
        (None, False, (), (), True),
    ],
    ids=["a manager", "a reader", "no job, a manager", "no job, a reader"],
)
def test_each_log_is_shown_only_to_its_permitted_readers(job, manages, runner_log, host_log, hides):
    found = post_mortem(WORST._replace(job=job), manages=manages)
    assert (found.runner_log, found.host_log, found.hides_log) == (runner_log, host_log, hides)


@pytest.mark.parametrize(
    ("changes", "known", "why"),
    [
        ({}, GRANTED, None),
        ({"job": None}, GRANTED, RerunRefusal.NOT_FAILED),
        ({"job": JOB._replace(conclusion="")}, GRANTED, RerunRefusal.NOT_FAILED),
        ({"job": JOB._replace(conclusion="success")}, GRANTED, RerunRefusal.NOT_FAILED),
        ({}, GRANTED._replace(granted=False), RerunRefusal.NOT_GRANTED),
        ({}, GRANTED._replace(rules=RerunRules("off")), RerunRefusal.OFF),
        ({}, GRANTED._replace(attempt=2), None),
        ({}, GRANTED._replace(later=(SECOND,)), RerunRefusal.LATER_ATTEMPT),
        ({}, GRANTED._replace(rerun=Rerun(70, 1, 1, "mona", NOW)), RerunRefusal.ALREADY),
        ({}, GRANTED._replace(rerun=Rerun(70, 1, 1, "mona", NOW - 3600)), None),
        ({}, GRANTED._replace(note=RerunNote("RunNotOver", "mona", NOW)), None),
        ({}, GRANTED._replace(note=RerunNote("RerunLimit", "mona", NOW)), RerunRefusal.TOO_MANY),
        ({}, GRANTED._replace(note=RerunNote("LaterAttempt", "mona", NOW)), RerunRefusal.LATER_ATTEMPT),
        ({}, GRANTED._replace(note=RerunNote("JobUnknownToGitHub", "mona", NOW)), RerunRefusal.UNKNOWN_JOB),
        ({}, GRANTED._replace(note=RerunNote("OfTheNextVersion", "mona", NOW)), None),
    ],
    ids=lambda value: str(value)[:40],
)
def test_the_re_run_button_follows_the_rules_of_the_check_runs_button(changes, known, why):
    death = WORST._replace(**changes)
    assert refusal_here(death, known, NOW) is why
    shown = post_mortem(death, known=known).rerun
    assert (shown is not None and shown.has_button) is (why is None)
    unseen = post_mortem(death, known=known, manages=False).rerun
    assert unseen is None or not unseen.has_button


@pytest.mark.parametrize(
    ("known", "sentences"),
    [
        (GRANTED, ()),
        (GRANTED._replace(granted=False), (WHY_NOT[RerunRefusal.NOT_GRANTED],)),
        (
            GRANTED._replace(rerun=Rerun(70, 1, 1, "mona", NOW - 60, RerunState.ACCEPTED)),
            ("A re-run was requested 1 min ago by mona.", "It is attempt 2 of the run."),
        ),
        (
            GRANTED._replace(rerun=Rerun(70, 1, 1, AUTO, NOW - 60)),
            ("A re-run was requested 1 min ago by ghapp.", "GitHub has not confirmed it yet."),
        ),
        (
            GRANTED._replace(rerun=Rerun(70, 1, 1, "mona", NOW - 60, RerunState.REFUSED, "It is too old")),
            ("A re-run was requested 1 min ago by mona.", "GitHub refused it: It is too old."),
        ),
        (
            GRANTED._replace(note=RerunNote("RunNotOver", "mona", NOW - 60, NOW + 60)),
            (
                f"A re-run was requested 1 min ago by mona: {why_not(RerunRefusal.RUN_NOT_OVER)}. It is tried again in 1 min.",
            ),
        ),
        (
            GRANTED._replace(note=RerunNote("RerunLimit", AUTO, NOW - 60)),
            (f"Not run again (looked at 1 min ago): {why_not(RerunRefusal.TOO_MANY)}.",),
        ),
    ],
    ids=["possible", "not granted", "accepted", "not confirmed", "refused", "tried again later", "final"],
)
def test_the_page_shows_the_state_of_the_re_run_or_why_there_is_none(known, sentences):
    assert post_mortem(known=known).rerun.sentences == sentences


@pytest.mark.parametrize("rerun", [None, Rerun(70, 1, 1, "mona", NOW - 60, RerunState.ACCEPTED)])
def test_a_later_attempt_is_shown_with_its_job(rerun):
    stopped = WORST._replace(cause=Cause.TERMINATED, reason="Error")
    shown = post_mortem(stopped, known=GRANTED._replace(rerun=rerun, later=(SECOND,)))
    assert shown.rerun.later == (("Attempt 2 of the run is job 71: queued.", 71),)
    assert not shown.rerun.has_button
    assert shown.not_yours == "It was not your code: the job was interrupted."


@pytest.mark.parametrize("later", [(), (SECOND,)])
def test_what_has_to_change_about_the_job_stays_once_it_was_run_again(later):
    change = JobStep("change the job", "it ate too much", "")
    rerun = Rerun(70, 1, 1, "mona", NOW - 60, RerunState.ACCEPTED)
    shown = post_mortem(known=GRANTED._replace(rerun=rerun, later=later, steps=(change,))).rerun
    assert [each.step for each in shown.steps] == ["Change the job."]


def test_running_the_job_again_is_a_step_for_those_who_have_no_button_here():
    change = JobStep("change the job", "it ate too much", "")
    press = JobStep('press "Re-run anyway"', "in the same way", "https://github.com/acme/api/runs/9", runs_again=True)
    posted = GRANTED._replace(steps=(change, press))
    shown = post_mortem(known=posted, manages=False).rerun
    assert [(each.step, each.url) for each in shown.steps] == [
        ("Change the job.", ""),
        ('Press "Re-run anyway".', press.url),
    ]
    assert (shown.sentences, shown.has_button) == ((), False)
    (step,) = post_mortem(known=posted).rerun.steps
    assert step.step == "Change the job."


def test_the_steps_come_with_their_addresses_and_the_button_says_that_nothing_was_changed():
    step = JobStep("change the job so that it eats less", "it ate too much", JOB.html_url)
    shown = post_mortem(known=GRANTED._replace(steps=(step,))).rerun
    assert [(each.step, each.url) for each in shown.steps] == [("Change the job so that it eats less.", JOB.html_url)]
    assert (shown.has_button, shown.button) == (True, "Re-run anyway")
    assert post_mortem(WORST._replace(cause=Cause.TERMINATED, reason="Error")).rerun.button == "Re-run this job"


def test_every_refusal_has_a_text():
    assert WHY_NOT.keys() == set(RerunRefusal)
