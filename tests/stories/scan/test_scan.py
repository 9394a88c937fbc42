"""`ghapp scan` against the simulated GitHub over HTTP: each kind of scope, what is wrong in it, and what is refused."""

from __future__ import annotations

import time
from contextlib import contextmanager

import pytest

from ghapp.errors import UnauthorizedError, UnknownTargetError
from ghapp.github.personal_client import PersonalClient
from ghapp.github.repositories import read_repository
from ghapp.installations.scope import Scope
from ghapp.report.headline import HeadlineKind
from ghapp.runners.verdict import State
from ghapp.sandbox import OrgConfig, PoolConfig, SandboxConfig, SandboxServer
from ghapp.scan import reader
from ghapp.scan.documents import scan_document
from ghapp.scan.findings import Findings
from ghapp.scan.looks import ListDifference
from ghapp.scan.reader import Scan, read_scopes

POOLS = (PoolConfig(name="linux-4vcpu", size=20), PoolConfig(name="gpu", size=5, ephemeral=False))
AT_API = {"api": (PoolConfig(name="api-own", size=3, ephemeral=False),)}
GAP = 30.0
EVERYTHING = ["admin:org", "manage_runners:enterprise", "repo"]


def nothing(_):
    """The fleet stays as it is between the lists."""


class Story:
    """A sandbox without jobs of its own, whose clock stands still, and scans of it.

    Attributes:
        waits: seconds of each wait for a limit.
        calls: requests of the last scan.
        most_calls: how many it might have sent.
    """

    def __init__(self, sandbox):
        self.sandbox, self.control = sandbox, sandbox.control
        self.waits, self.calls, self.most_calls, self._skipped = [], 0, 0, 0.0

    async def scan(self, *targets, token="ghp_mona", between=nothing):
        """Scans these targets; `between` happens between the lists. Returns the findings."""

        async def pause(seconds):
            self._skipped += seconds
            if seconds > GAP - 1:
                between(self.control)

        url = self.sandbox.api_url
        async with PersonalClient.open(url, token, self.waits.append, pause) as client:
            how = Scan(client, GAP, clock=lambda: time.time() + self._skipped, pause=pause)
            readings = await read_scopes(how, [Scope.parse(each) for each in targets])
            self.calls, self.most_calls = client.calls, client.most_calls
        found = [Findings(each) for each in readings]
        scan_document(found, self.calls)
        return found


@contextmanager
def sandbox(**changes):
    org = OrgConfig(**{"pools": POOLS, "repository_pools": AT_API, **changes.pop("org", {})})
    with SandboxServer(SandboxConfig(**{"orgs": (org,), "quiet": True, "ticking": False, **changes})) as server:
        yield Story(server)


@pytest.fixture
def story():
    with sandbox() as told:
        yield told


def kinds(found):
    return [each.kind for each in found.headlines]


def states(found):
    return {each.evidence.name: each.verdict.state for each in found.runners}


def refusals(found):
    return [(each.what, each.needs) for each in found.reading.not_seen]


async def test_an_organization_s_lost_and_offline_runners_and_why_its_jobs_wait(story):
    story.control.queue("acme", labels=["self-hosted", "linux-8vcpu"])
    offline = story.control.take_offline("acme", count=1, pool="gpu")
    lost = []

    def happens(control):
        lost.extend(control.lose("acme", count=2, pool="gpu"))
        control.register("acme", pool="gpu")

    (found,) = await story.scan("acme", between=happens)
    by_id = {each.evidence.id: each for each in found.runners}
    assert {runner_id for runner_id, each in by_id.items() if each.verdict.state is State.OFFLINE} == set(offline)
    assert {each.evidence.id for each in found.changed(ListDifference.MISSING)} == set(lost)
    assert len(found.changed(ListDifference.CAME)) == 1
    assert kinds(found) == [HeadlineKind.SUSPECT, HeadlineKind.OFFLINE]
    (waiting,) = found.waiting
    assert "nearest label to linux-8vcpu is linux-4vcpu" in waiting.why.text
    assert found.reading.coverage[:4] == (4, 4, 1, 1)
    assert refusals(found) == []
    assert found.reading.calls == story.calls <= 60


async def test_a_job_that_has_waited_for_long_is_a_headline(story):
    story.control.queue("acme", labels=["self-hosted", "nope"])
    story.control.step(seconds=-600)
    story._skipped = 600.0
    (found,) = await story.scan("acme")
    assert kinds(found) == [HeadlineKind.UNSERVED]


async def test_a_repository_s_runners_and_those_of_its_organization_that_may_take_its_jobs(story):
    story.control.queue("acme", labels=["self-hosted", "api-own"], repository="api")
    story.control.queue("acme", labels=["self-hosted", "neither"], repository="api")
    story.control.queue("acme", labels=["self-hosted", "nope"], repository="web")
    (found,) = await story.scan("acme/api")
    assert states(found).keys() == {each.name for each in own_runners(story)}
    assert [each.job.labels[1] for each in found.waiting] == ["api-own", "neither"]
    assert [each.label for each in found.unserved_labels] == ["neither"]
    assert len(found.reading.others) == 1
    assert found.reading.coverage[:4] == (1, 1, 2, 2)


def own_runners(story):
    place = story.sandbox.world.orgs["acme"].at_repositories["api"]
    return place.fleet.roster.registered.values()


async def test_the_organization_s_runners_are_not_read_twice_for_its_repository(story):
    both = await story.scan("acme", "acme/api")
    counted = story.sandbox.control.account()["calls"]["GET /orgs/{org}/actions/runners"]["total"]
    assert counted == 2
    assert [each.reading.scope.address for each in both] == ["acme", "acme/api"]


async def test_without_the_organization_s_runners_no_label_is_called_unknown(story):
    story.control.queue("acme", labels=["self-hosted", "linux-4vcpu", "x"], repository="api")
    story.control.withhold_permission("acme")
    (found,) = await story.scan("acme/api")
    assert [each.is_unknown for each in found.waiting] == [True]
    assert (found.headlines, found.unserved_labels) == ([], [])
    ((what, needs),) = refusals(found)
    assert (what, needs) == ("the runners of acme", "of an owner of acme")


async def test_completed_jobs_show_which_labels_are_used_and_when_an_offline_runner_was_last_at_work(story):
    (job_id,) = story.control.queue("acme", labels=["self-hosted", "gpu"])
    job = story.sandbox.fleet.jobs[job_id]
    story.control.finish("acme", job_id=job_id)
    story.control.take_offline("acme", ids=[job.runner_id])
    (found,) = await story.scan("acme")
    (offline,) = [each for each in found.runners if each.verdict.state is State.OFFLINE]
    assert offline.evidence.last_sign_at == int(job.completed_at)
    assert [each.label for each in found.unused_labels] == ["linux-4vcpu"]
    assert found.reading.coverage.finished_runs == 5


async def test_an_ephemeral_runner_that_left_after_a_short_job_is_not_missing(story):
    def happens(control):
        (job_id,) = control.queue("acme", labels=["self-hosted", "linux-4vcpu"])
        control.finish("acme", job_id=job_id)

    (found,) = await story.scan("acme", between=happens)
    assert found.changed(ListDifference.MISSING) == []
    assert len(found.changed(ListDifference.LEFT)) == 1


@pytest.mark.parametrize("target", ["acme", "acme/api"])
async def test_runners_that_an_enterprise_shares_may_take_jobs_of_its_organizations(target):
    with sandbox(org={"enterprise": "acme-corp"}) as story:
        story.control.queue("acme", labels=["self-hosted", "shared"], repository="api")
        story.control.restrict_group("acme", repositories=["web"])
        (found,) = await story.scan(target)
        assert (found.unserved_labels, [each.why for each in found.waiting]) == ([], [None]), (
            "GitHub is about to assign it"
        )
        story.control.fault(status=404, match="runner-groups/2/")
        (organization, repository) = await story.scan("acme", "acme/api")
        assert [each.is_unknown for found in (organization, repository) for each in found.waiting] == [True, True]
        (found,) = await story.scan(target)
        assert [each.is_unknown for each in found.waiting] == [True]
        assert [each.what for each in found.reading.not_seen] == ["the runners of the enterprise's group acme-corp"]


@pytest.mark.parametrize("target", ["acme", "acme/api"])
async def test_a_job_for_a_larger_runner_that_github_hosts_is_none_of_ours(target):
    with sandbox(org={"hosted_runners": ("Ubuntu big",)}) as story:
        story.control.queue("acme", labels=["ubuntu BIG"], repository="api")
        (found,) = await story.scan(target)
        assert (found.waiting, found.unserved_labels) == ([], [])
        story.control.fault(status=404, match="hosted-runners")
        (found,) = await story.scan(target)
        assert ([each.label for each in found.unserved_labels], found.reading.not_seen) == (["ubuntu BIG"], [])


async def test_an_enterprise(story):
    roster = story.sandbox.world.enterprises["acme-corp"].fleet.roster

    def happens(control):
        control.in_world(lambda: roster.end(next(iter(roster.registered.values()))))

    (found,) = await story.scan("enterprises/acme-corp", between=happens)
    assert len(found.runners) == 4
    assert kinds(found) == [HeadlineKind.SUSPECT]
    assert "scan its organizations" in found.reading.not_seen[0].why


@pytest.mark.parametrize(
    ("target", "token", "needs"),
    [
        ("acme", {"scopes": ["repo"]}, "with the scope admin:org"),
        ("acme", {"scopes": EVERYTHING, "login": "lisa"}, "of an owner of acme"),
        ("acme", {"permissions": {}}, "with the permission organization_self_hosted_runners: read"),
        ("acme", {"scopes": EVERYTHING, "authorized": False}, "that is authorized for the single sign-on of acme"),
        ("acme/api", {"scopes": EVERYTHING, "login": "lisa"}, "of an admin of acme/api"),
        ("acme/api", {"permissions": {"metadata": "read"}}, "with the permission administration: read"),
        ("enterprises/acme-corp", {"scopes": ["repo"]}, "with the scope manage_runners:enterprise"),
        (
            "enterprises/acme-corp",
            {"permissions": {}},
            "with the scope manage_runners:enterprise (a classic one: GitHub shows this to no other token)",
        ),
    ],
)
async def test_a_token_that_lacks_a_right_is_refused_in_words(story, target, token, needs):
    (found,) = await story.scan(target, token=story.control.personal_token(**token))
    assert found.reading.not_seen[0].needs == needs
    assert kinds(found)[:1] == [HeadlineKind.BLIND]


async def test_a_fine_grained_token_for_runners_alone_says_what_it_does_not_see(story):
    token = story.control.personal_token(permissions={"organization_self_hosted_runners": "read", "metadata": "read"})
    (found,) = await story.scan("acme", token=token)
    assert len(found.runners) == 25
    assert refusals(found) == [("the runs of 4 of 4 repositories", "with the permission actions: read")]
    assert found.reading.jobs is None
    assert found.headlines == []


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("acne", "acne: no such organization, or it has another name now; did you mean acme?"),
        ("mona", "mona: is a personal account, and GitHub registers runners at its repositories only"),
        ("acme/apy", "acme/apy: no such repository, or the token may not see it; did you mean acme/api?"),
        ("nobody/api", "nobody/api: there is no account nobody"),
        ("enterprises/acne", "enterprises/acne: no such enterprise, or the token is of none of its owners"),
    ],
)
async def test_an_unknown_target_ends_the_scan_before_anything_is_waited_for(story, target, words):
    with pytest.raises(UnknownTargetError) as caught:
        await story.scan("acme", target, between=lambda _: pytest.fail("it has waited"))
    assert str(caught.value).startswith(words)


async def test_a_token_that_github_does_not_accept(story):
    with pytest.raises(UnauthorizedError) as caught:
        await story.scan("acme", token="ghp_wrong")
    assert "ghp_wrong" not in str(caught.value)


async def test_an_organization_that_was_renamed(story):
    story.control.rename("acme", "acme-two")
    with pytest.raises(UnknownTargetError, match="did you mean acme-two"):
        await story.scan("acme")


async def test_a_target_twice_is_scanned_once(story):
    found = await story.scan("acme", "ACME", "acme/api", "Acme/API")
    assert [each.reading.scope.address for each in found] == ["acme", "acme/api"]


async def test_a_personal_repository_has_no_organization_whose_runners_may_take_its_jobs(story, monkeypatch):
    async def personal(client, name):
        return (await read_repository(client, name))._replace(is_of_organization=False)

    monkeypatch.setattr(reader, "read_repository", personal)
    (found,) = await story.scan("acme/api")
    assert (found.reading.others, found.reading.are_others_seen) == ([], True)
    assert not any("/orgs/" in name for name in story.control.account()["calls"])


@pytest.mark.parametrize("field", ["name", "id", "status"])
async def test_a_row_that_cannot_be_read_costs_itself_alone_and_is_counted(story, field):
    first = min(story.sandbox.fleet.roster.registered)
    story.control.misreport(ids=[first], omit=[field])
    (found,) = await story.scan("acme", between=lambda control: control.lose("acme", count=1, pool="gpu"))
    assert len(found.runners) == 24
    assert found.not_seen[0].what == "1 of 24 runners"
    assert len(found.changed(ListDifference.MISSING)) == 1


async def test_a_token_whose_hourly_limit_is_nearly_spent_reads_runners_alone_and_says_so(story):
    story.control.limits(remaining=300)
    (found,) = await story.scan("acme")
    assert (len(found.runners), found.reading.jobs) == (25, None)
    assert "hourly limit" in found.not_seen[-1].why


async def test_a_limit_that_asks_for_some_seconds_is_waited_for_and_the_scan_goes_on(story):
    story.control.secondary_limit(retry_after=20)

    def pass_time(seconds):
        story.waits.append(seconds)
        story.control.no_faults()

    story.waits = Waits(pass_time)
    (found,) = await story.scan("acme")
    assert (len(found.runners), len(story.waits) > 0) == (25, True)


class Waits(list):
    """The waits for a limit, each of which lets something happen."""

    def __init__(self, act):
        super().__init__()
        self._act = act

    def append(self, seconds):
        super().append(seconds)
        act, self._act = self._act, lambda _: None
        act(seconds)


@pytest.mark.parametrize("status", [403, 429])
async def test_the_hourly_limit_is_named_and_not_waited_for(story, status):
    story.control.exhaust_limit(status=status, seconds=1800)
    (found,) = await story.scan("acme")
    assert kinds(found) == [HeadlineKind.BLIND]
    assert "rate limit is reached" in found.headlines[0].sentence
    assert story.calls == 1


async def test_a_gateway_s_error_is_tried_again_and_then_named(story):
    story.control.fault(status=502)
    (found,) = await story.scan("acme")
    assert "GitHub answered 502" in found.headlines[0].sentence
    assert story.calls == 3


async def test_a_gateway_s_error_at_the_second_list_leaves_the_first(story):
    (found,) = await story.scan("acme", between=lambda control: control.fault(status=502, match="actions/runners$"))
    assert len(found.reading.looks) == 1
    assert len(found.runners) == 25
    assert refusals(found) == [("a second list of the runners of acme", "")]


async def test_runs_of_one_repository_that_cannot_be_read_hide_no_other(story):
    story.control.queue("acme", labels=["self-hosted", "nope"], repository="web")
    story.control.fault(status=502, match="/api/actions/runs")
    (found,) = await story.scan("acme")
    assert len(found.waiting) == 1
    assert refusals(found) == [("the runs of 1 of 4 repositories", "")]


async def test_a_server_of_one_s_own_without_dates_and_without_ephemeral():
    with sandbox(api_path="/api/v3") as story:
        story.control.misreport(omit=["ephemeral", "version", "runner_group_id"])
        story.control.fault(status=404, match="deprecations")
        (found,) = await story.scan("acme", between=lambda control: control.lose("acme", count=1))
    assert [(each.version, each.state) for each in found.versions] == [(None, "unknown")]
    assert found.headlines == [], "the runner may be an ephemeral one that ran a job"
    assert len(found.changed(ListDifference.MISSING)) == 1


async def test_a_version_that_gets_no_jobs_is_the_worst_and_why_jobs_wait(story):
    story.control.set_version("acme", version="2.328.0", pool="gpu")
    story.control.queue("acme", labels=["self-hosted", "gpu"])
    (found,) = await story.scan("acme")
    assert [(each.version, each.state, each.runners) for each in found.versions][:1] == [("2.328.0", "ended", 5)]
    assert found.headlines[0].severity == "critical"
    assert [each.why.reason for each in found.waiting] == ["RunnersTooOld"]


async def test_dates_of_versions_at_a_repository_and_an_enterprise(story):
    found = await story.scan("acme/api", "enterprises/acme-corp")
    assert [[each.state for each in one.versions] for one in found] == [["current"], ["current"]]
    assert [each.what for one in found for each in one.reading.not_seen] == [
        "jobs that wait for the enterprise's runners"
    ]


async def test_endpoints_that_a_server_lacks_are_named(story):
    for path in ("runner-groups", "/repos", "runners/deprecations"):
        story.control.fault(status=404, match=path)
    (found,) = await story.scan("acme")
    assert len(found.runners) == 25
    assert [each.what for each in found.reading.not_seen] == ["the runner groups of acme", "the repositories"]


async def test_a_list_that_changes_between_its_pages_is_read_again():
    with sandbox(org={"pools": (PoolConfig(name="linux", size=250, ephemeral=False),)}) as story:
        story.control.slip_pages("acme", appear=200, times=1)
        (found,) = await story.scan("acme")
        assert (found.observed.flaws, len(found.runners)) == ((), 450)
        assert story.calls <= 180


async def test_a_list_that_never_adds_up_calls_no_runner_missing(story):
    (found,) = await story.scan(
        "acme", between=lambda control: (control.miscount("acme", by=9), control.lose("acme", count=5))
    )
    assert kinds(found) == [HeadlineKind.BLIND]
    assert found.changed(ListDifference.MISSING) == []


async def test_runners_that_a_list_omits_and_github_returns_are_not_missing(story):
    (found,) = await story.scan("acme", between=lambda control: control.unlist("acme", share=0.4))
    assert found.headlines == []
    unlisted = found.changed(ListDifference.UNLISTED)
    assert unlisted
    assert len(unlisted) <= 10


async def test_an_organization_without_runners():
    with sandbox(org={"pools": ()}) as story:
        story.control.queue("acme", labels=["self-hosted", "linux"])
        (found,) = await story.scan("acme")
        assert (found.runners, found.headlines, len(found.waiting)) == ([], [], 1)


@pytest.mark.parametrize("runners", [100, 101, 1000])
async def test_many_runners_cost_sixty_calls_a_hundred_at_most(runners):
    with sandbox(org={"pools": (PoolConfig(name="linux", size=runners, ephemeral=False),)}) as story:
        for name in ("api", "web", "infra", ".github"):
            story.control.queue("acme", labels=["self-hosted", "nope"], repository=name, count=40)
        (found,) = await story.scan("acme", between=lambda control: control.lose("acme", count=runners // 2))
        assert len(found.runners) == runners
        assert story.calls <= story.most_calls == 60 * -(-runners // 100)
        assert len(found.changed(ListDifference.MISSING)) == runners // 2
        assert story.calls == found.reading.calls
        assert found.reading.coverage.of_runs == 160


async def test_an_address_that_is_not_allowed_is_no_missing_permission(story):
    story.control.block_address("acme")
    (found,) = await story.scan("acme")
    assert "IP allow list" in found.reading.not_seen[0].why
    assert found.reading.not_seen[0].needs == ""


async def test_of_many_runs_the_newest_and_the_oldest_queued_ones_are_read_and_all_are_counted(story):
    first, *_ = story.control.queue("acme", labels=["self-hosted", "nope"], count=250)
    (found,) = await story.scan("acme/api")
    assert found.reading.coverage.of_runs == 250
    assert found.waiting[0].job.id == first
    assert story.calls <= 60


async def test_nothing_is_changed_at_github(story):
    await story.scan("acme", "acme/api", "enterprises/acme-corp")
    assert all(name.startswith("GET ") for name in story.control.account()["calls"])
