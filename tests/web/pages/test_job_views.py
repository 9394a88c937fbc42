"""The content of the job pages as a pure function of the stored data and the visitor."""

from __future__ import annotations

import pytest

from ghapp.deaths.job_death import RunnerAfter
from ghapp.deaths.job_outcome import NOTHING_KNOWN, JobOutcome, LaterAttempt, job_summary, next_steps
from ghapp.web.pages.views.paging import HIGHEST_PAGE, PAGE_SIZE, UnknownValueError
from ghapp.web.pages.views.wording import moment
from ghapp.workflow_jobs.job import QUEUED_TOO_LONG_SECONDS, JobOrigin
from ghapp.workflow_jobs.job_queue import JobQueue, QueueInputs
from ghapp.workflow_jobs.job_steps import JobSteps
from ghapp.workflow_jobs.page_views import (
    HELD,
    JobsQuery,
    LaterLine,
    ListedJobs,
    job_board,
    job_page,
    jobs_page,
    read_query,
    sentence,
    with_later,
)
from tests.rules.builders import NOW
from tests.rules.deaths.test_post_mortem import death
from tests.rules.installations.test_pool_matching import Rule
from tests.rules.workflow_jobs.builders import busy, job, queue

POOL = "linux-4vcpu"


def everything(_):
    return True


def only(*repositories):
    return lambda repository: repository in repositories


def running(number=1, **changes):
    return job(number, status="running", runner_id=3, runner_name="linux-3", started_at=NOW - 60, **changes)


def over(number=1, **changes):
    return running(number)._replace(**{"status": "over", "ended_at": NOW - 10, "conclusion": "success", **changes})


def board(*jobs, ended=(), runners=None):
    return job_board(queue(jobs, runners or [busy()], ended=ended))


UNTAKEN = over(
    runner_id=None,
    runner_name=None,
    started_at=None,
    conclusion="cancelled",
    waited_for="NoRunnerWithLabels",
    lacked_labels=("gpu",),
)

OPEN = JobsQuery()


def shown(found, query=OPEN, reads=everything):
    return [each.id for each in jobs_page(found, query, reads, NOW).rows]


def test_jobs_that_cannot_start_come_first_then_queued_then_running_then_completed_ones():
    found = board(
        job(1, queued_at=NOW - 20),
        job(2, queued_at=NOW - 30),
        job(3, queued_at=NOW - 10, labels=("gpu",)),
        running(4),
        running(5)._replace(started_at=NOW - 5),
        ended=(over(6), over(7, ended_at=NOW - 5)),
    )
    assert shown(found, JobsQuery("all")) == [3, 2, 1, 5, 4, 7, 6]


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        (JobsQuery(), [1, 2, 3]),
        (JobsQuery("queued"), [1, 2]),
        (JobsQuery("unserved"), [1]),
        (JobsQuery("running"), [3]),
        (JobsQuery("over"), [4]),
        (JobsQuery("all"), [1, 2, 3, 4]),
        (JobsQuery("failed"), []),
        (JobsQuery(pool="gpu"), []),
        (JobsQuery(pool=POOL), [2, 3]),
        (JobsQuery(text="GPU"), [1]),
        (JobsQuery(text="shop"), [2]),
        (JobsQuery(text="nightly"), [3]),
        (JobsQuery(text="linux-3"), [3]),
        (JobsQuery(text="3"), [3]),
        (JobsQuery("queued", text="nightly"), []),
        (JobsQuery(text="cache-7"), [2]),
        (JobsQuery(text="LISA"), [2]),
        (JobsQuery(origin=JobOrigin(branch="cache-7")), [2]),
        (JobsQuery(origin=JobOrigin(branch="cache")), []),
        (JobsQuery(origin=JobOrigin(actor="LISA")), [2]),
        (JobsQuery("all", origin=JobOrigin(actor="lisa")), [2, 4]),
        (JobsQuery("all", origin=JobOrigin("main", "lisa")), [4]),
    ],
    ids=str,
)
def test_jobs_are_selected_by_state_pool_and_text(query, ids):
    found = board(
        job(1, labels=("gpu",)),
        job(2, repository="acme/shop", head_branch="cache-7", actor="lisa"),
        running(3, workflow="Nightly", actor="mona"),
        ended=(over(4, runner_name="x", head_branch="main", actor="lisa"),),
    )
    assert shown(found, query) == ids


def test_a_query_is_parsed_from_its_own_address_and_an_unknown_state_is_refused():
    query = JobsQuery("running", "a b", "x&y", 3, JobOrigin("a/b", "lisa"))
    assert query.address() == "?state=running&pool=a+b&text=x%26y&branch=a%2Fb&actor=lisa&page=3"
    given = {"state": "running", "pool": "a b", "text": " x&y ", "branch": "a/b", "actor": " lisa", "page": "3"}
    assert read_query(given) == query
    for page in ("-1", "x", "٣", str(10 * HIGHEST_PAGE)):
        assert read_query({"state": "", "page": page}) == JobsQuery()
    with pytest.raises(
        UnknownValueError,
        match=r"^This page has no state=dead; known are all, failed, over, queued, running, unserved\.$",
    ):
        read_query({"state": "dead"})


def test_a_thousand_jobs_are_paged():
    found = board(*(job(number) for number in range(1, 1001)))
    first, last = (jobs_page(found, JobsQuery(page=page), everything, NOW) for page in (1, 99))
    assert (len(first.rows), first.paging.matching, first.paging.pages, first.paging.first, first.paging.last) == (
        PAGE_SIZE,
        1000,
        10,
        1,
        PAGE_SIZE,
    )
    assert (first.paging.previous, first.paging.following) == ("", "?page=2")
    assert last.paging == (1000, 901, 1000, 10, 10, "?page=9", "")


def test_a_queued_job_shows_why_it_waits_and_the_first_step():
    (row,) = jobs_page(board(job(1, labels=("linux-4vpcu",))), JobsQuery(), everything, NOW).rows
    assert (row.mark, row.reason, row.ahead) == ("stuck", "NoRunnerWithLabels", None)
    assert row.note == "No runner has the label linux-4vpcu; the nearest label to linux-4vpcu is linux-4vcpu."
    assert row.step == "change linux-4vpcu to linux-4vcpu in runs-on"


@pytest.mark.parametrize(
    ("known", "mark", "note", "lasted"),
    [
        (running(), "running", "", ""),
        (over(), "ended", "success", "50 s"),
        (over(conclusion="timed_out"), "bad", "timed out", "50 s"),
        (over(started_at=None, conclusion="cancelled"), "ended", "cancelled", ""),
        (UNTAKEN, "ended", "waited 59 min: no runner had the label gpu; cancelled", ""),
        (job(1, waiting=True), "queued", HELD, ""),
        (job(1, queued_at=NOW), "queued", "GitHub has assigned no runner yet.", ""),
    ],
    ids=[
        "running",
        "success",
        "bad",
        "cancelled-before-its-start",
        "without-a-runner",
        "approval",
        "about-to-be-assigned",
    ],
)
def test_a_row_has_the_state_and_the_result_of_the_job(known, mark, note, lasted):
    idle = busy()._replace(busy=False)
    found = board(*((known,) if known.status != "over" else ()), ended=(known,), runners=[idle])
    (row,) = jobs_page(found, JobsQuery("all"), everything, NOW).rows
    assert (row.mark, row.note, row.lasted) == (mark, note, lasted)


def test_the_page_of_a_job_that_ended_without_a_runner_begins_with_why_it_waited():
    assert page_of(UNTAKEN, NOTHING_KNOWN).summary.text == "Waited 59 min: no runner had the label gpu; cancelled."


def test_a_job_whose_runner_died_links_to_the_death():
    found = board(ended=(over(4), over(5)))
    rows = jobs_page(found, JobsQuery("over"), everything, NOW, {5: "vm-1"}).rows
    assert {each.id: each.death for each in rows} == {4: "", 5: "vm-1"}


def test_jobs_of_hidden_repositories_are_only_counted():
    found = board(
        job(1, repository="acme/api"),
        job(2, repository="acme/secret", labels=("project-x",), name="launch", workflow="Rocket"),
        job(3, repository="acme/secret", labels=("project-y",)),
        ended=(over(4, repository="acme/secret"),),
    )
    page = jobs_page(found, JobsQuery("all"), only("acme/api"), NOW)
    assert [each.id for each in page.rows] == [1]
    assert page.hidden == 2, "completed jobs are not counted"
    assert [(each.name, each.queued, each.unserved) for each in page.pools] == [(POOL, 1, 0), ("no pool", 2, 2)]
    assert page.pools[1].query == ""
    for word in ("secret", "project-x", "project-y", "launch", "Rocket"):
        assert word not in repr(page)
    for query in (JobsQuery(text="launch"), JobsQuery(pool="project-x"), JobsQuery(text="2")):
        assert shown(found, query, only("acme/api")) == []


@pytest.mark.parametrize(
    ("query", "hidden"),
    [
        (JobsQuery(), 1),
        (JobsQuery("running"), 1),
        (JobsQuery("over"), 0),
        (JobsQuery(pool=POOL), 0),
        (JobsQuery(text="x"), 0),
        (JobsQuery(origin=JobOrigin("main")), 0),
        (JobsQuery(origin=JobOrigin(actor="lisa")), 0),
    ],
    ids=str,
)
def test_hidden_jobs_are_counted_where_nothing_but_a_state_is_selected(query, hidden):
    """How many of them match shows a visitor what they are."""
    assert jobs_page(board(job(1, repository="acme/secret")), query, only("acme/api"), NOW).hidden == hidden


def test_a_row_has_the_branch_the_commit_and_the_person_of_its_job():
    (row,) = jobs_page(board(job(1, head_branch="a&b", head_sha="e" * 40, actor="lisa")), OPEN, everything, NOW).rows
    assert (row.branch, row.branch_query, row.sha, row.actor) == ("a&b", "state=all&branch=a%26b", "e" * 7, "lisa")


@pytest.mark.parametrize(
    ("rerun_by", "again"),
    [
        ("", ""),
        ("lisa", " (run again by ghapp)"),
        ("auto", " (run again by ghapp, as its pool is configured)"),
        ("holder of the key", " (run again by ghapp, requested by holder of the key)"),
    ],
)
def test_a_row_has_who_had_ghapp_run_its_job_again(rerun_by, again):
    asked = job(1, head_branch="main", actor="lisa", rerun_by=rerun_by)
    (row,) = jobs_page(board(asked), OPEN, everything, NOW).rows
    assert (row.actor, row.again) == ("lisa", again)
    assert job_page(board(asked).queue, asked, NOTHING_KNOWN, NOW).origin == f"main, by lisa{again}"


def test_labels_that_no_pool_has_are_shown_as_labels_and_no_filter_offers_them():
    page = jobs_page(board(job(1, labels=("self-hosted", "linux-4vpcu")), job(2)), JobsQuery(), everything, NOW)
    assert [(each.id, each.pool, each.labels) for each in page.rows] == [
        (1, "", "labels self-hosted, linux-4vpcu"),
        (2, POOL, ""),
    ]
    assert page.pool_names == (POOL,)
    assert page_of(job(1, labels=("linux-4vpcu",))).story[0].text == "Queued for a runner with the label linux-4vpcu."


def test_a_pool_whose_last_runner_left_a_moment_ago_stays_a_pool():
    labels = ("self-hosted", "gpu")
    found = queue([waiting := job(1, labels=labels)], [busy()], left_at={labels: NOW - 5})
    assert found.existing_pool(waiting) == "gpu"
    assert found.existing_pool(job(2, labels=())) == ""


def test_a_configured_pool_without_runners_stays_a_pool():
    found = job_board(queue([job(1, labels=("gpu",))], [busy()], rules=[Rule("big", ("gpu",))]))
    page = jobs_page(found, JobsQuery(pool="big"), everything, NOW)
    assert [(each.id, each.pool) for each in page.rows] == [(1, "big")]
    assert page.pool_names == ("big", POOL)


def test_a_job_of_an_unknown_repository_is_not_shown_to_a_person():
    assert shown(board(job(1, repository="")), reads=only("acme/api")) == []


def test_the_numbers_of_a_pool_count_all_repositories():
    found = board(
        job(1, repository="acme/secret", queued_at=NOW - 90),
        running(2, repository="acme/secret"),
        runners=[busy(), busy()._replace(busy=False)],
    )
    (pool,) = jobs_page(found, JobsQuery(), only("acme/api"), NOW).pools
    assert (pool.name, pool.queued, pool.running, pool.idle, pool.online) == (POOL, 1, 1, 1, 2)
    assert (pool.oldest.text, pool.query) == ("1 min ago", "pool=linux-4vcpu")


def test_failed_jobs_are_those_that_are_over_and_did_not_succeed():
    conclusions = ("success", "failure", "cancelled", "timed_out", "skipped", "neutral", "")
    ended = [over(number, conclusion=each) for number, each in enumerate(conclusions, 1)]
    found = board(job(8), running(9), ended=ended)
    assert sorted(shown(found, JobsQuery("failed"))) == [2, 3, 4]
    assert jobs_page(found, JobsQuery("failed"), only(), NOW).hidden == 0, "it would count open jobs"


def test_the_row_of_a_job_that_was_run_again_has_when_and_as_which_attempt():
    view = jobs_page(board(running(3), ended=(over(1), over(2))), JobsQuery("all"), everything, NOW)
    assert sorted(view.run_again_ids) == [1, 2]
    later = LaterAttempt(2, 9, "running on runner linux-4", "", NOW - 60)
    rows = with_later(view, ListedJobs({}, {1: later}), NOW).rows
    assert {each.id: each.later for each in rows} == {
        1: LaterLine(moment(NOW - 60, NOW), "attempt 2", "running on runner linux-4", 9),
        2: None,
        3: None,
    }


def page_of(shown_job, outcome=NOTHING_KNOWN):
    return job_page(queue([shown_job], [busy()]), shown_job, outcome, NOW)


def test_the_page_of_a_queued_job_explains_it_with_steps_as_sentences():
    page = page_of(job(1, labels=("gpu",), head_sha="abcdef0123"))
    assert (page.state, page.mark, page.origin, page.why.reason, page.why.stuck) == (
        *("queued", "stuck"),
        *("abcdef0", "NoRunnerWithLabels", True),
    )
    assert page.why.sentence == "No runner has the label gpu."
    assert page.why.fails == moment(NOW - 3600 + QUEUED_TOO_LONG_SECONDS, NOW)
    (step,) = page.steps
    assert (step.step, step.why, step.is_command) == (
        "Register a runner with the label gpu.",
        "GitHub assigns the job to such a runner; the platform team can do that.",
        False,
    )
    assert (page.started, page.ran, page.ended) == (None, "", None)


def test_the_page_of_a_completed_job_shows_how_long_it_waited_and_ran():
    page = page_of(over(4, queued_at=NOW - 360))
    assert (page.waited, page.ran, page.conclusion, page.runner, page.runner_id) == (
        "5 min",
        "50 s",
        "success",
        "linux-3",
        3,
    )
    assert page.why is None


def test_what_is_over_is_shown_to_the_second_and_what_goes_on_is_calm():
    ended = over(4)
    ended = ended._replace(queued_at=ended.ended_at - 11, started_at=ended.ended_at - 3)
    assert (page_of(ended).waited, page_of(ended).ran) == ("8 s", "3 s")
    assert page_of(job(1, queued_at=NOW - 8)).waited == "5 s"


def test_the_page_has_the_jobs_story_with_the_runners_death():
    page = page_of(over(4, queued_at=NOW - 360, conclusion="failure"), JobOutcome(death(at=NOW - 20)))
    assert [(each.at and each.at.text, each.is_bad) for each in page.story] == [
        ("6 min ago", False),
        ("1 min ago", False),
        ("20 s ago", True),
        ("10 s ago", False),
        (None, False),
    ]
    assert page.story[0].text == "Queued for pool linux-4vcpu."


def test_the_page_of_a_job_whose_runner_died_has_the_steps_that_the_terminal_has():
    ended = over(4, conclusion="failure", html_url="https://github.com/acme/api/actions/runs/41/job/4")
    outcome = JobOutcome(death(at=NOW - 20))
    assert [(each.step, each.why, each.url) for each in page_of(ended, outcome).steps] == [
        (sentence(each.step), sentence(each.why), each.url) for each in next_steps(ended, outcome, NOW)
    ]
    assert [(each.step, each.url) for each in page_of(ended, outcome).steps] == [
        ("Change the job so that it needs less memory, or runs in a pool with more.", ""),
        ("Run it again at GitHub (Re-run jobs).", ended.html_url),
    ]
    assert page_of(ended).steps == ()


def test_the_page_of_a_job_that_failed_begins_as_the_terminal_does():
    ended, outcome = over(4, conclusion="failure"), JobOutcome(death(at=NOW - 20))
    summary, same = page_of(ended, outcome).summary, job_summary(ended, outcome, NOW)
    assert (summary.text, summary.again) == (sentence(same.text), sentence(same.again))
    of_step = page_of(ended, JobOutcome(runner_after=RunnerAfter(True, a_step_failed=True, exited=True))).summary
    assert (of_step.text, of_step.again) == ("A step of the job failed; its runner did not die.", "")
    assert page_of(ended).summary is None


def test_a_job_in_the_list_has_whether_a_step_failed_unless_its_runner_died():
    by_step = over(4, conclusion="failure", steps=JobSteps(failed=True))
    found = board(ended=[by_step, over(5, conclusion="failure", steps=JobSteps()), over(6)])
    rows = jobs_page(found, JobsQuery("over"), everything, NOW).rows
    assert {each.id: each.step_failed for each in rows} == {4: True, 5: False, 6: False}
    (row,) = jobs_page(board(ended=[by_step]), JobsQuery("over"), everything, NOW, {4: "a"}).rows
    assert not row.step_failed


def test_a_command_is_shown_ready_to_copy():
    assert sentence("ghapp resume acme --pool x") == "ghapp resume acme --pool x."
    assert sentence("wait") == "Wait."


def test_an_organization_without_jobs_has_an_empty_page():
    page = jobs_page(job_board(JobQueue(QueueInputs("acme", [], []), NOW)), JobsQuery(), everything, NOW)
    assert (page.rows, page.pools, page.paging.pages, page.paging.first, page.paging.last, page.hidden) == (
        (),
        (),
        1,
        0,
        0,
        0,
    )
