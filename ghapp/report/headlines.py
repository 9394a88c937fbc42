"""What is wrong now in an organization, the worst first: the beginning of every surface. Pure.

The page, `ghapp runners`, the terminal, the check run and the API begin with the first of these headlines, and list the
others as what is open; messages and the page of an open incident are made of them, too. Each says what is wrong, what
it means, and what to do next: the sentences exist here alone.

They come in the order of `HeadlineKind`; within one kind, what waits for a person comes first. A suspect is no headline
in its first minutes, for each ephemeral runner is one for seconds at the end of its job; as many at once as would trip
a fuse are one from their first list on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from urllib.parse import urlencode

from ghapp.gate.gate_checks import commit_of, place_of
from ghapp.gate.gate_states import GateState
from ghapp.gate.shard_status import shard_of
from ghapp.installations.pool_matching import rule_named
from ghapp.pods.phantom_kinds import KNOWN_SOON, Phantom, PhantomKind, command_of, key, may_be_phantoms
from ghapp.report.fleet import FleetView, PoolView, RunnerView
from ghapp.report.headline import BY_ITSELF, Headline, HeadlineKind, Severity, first_since, runners_page
from ghapp.report.loss_headlines import (
    fuse_headlines,
    lasting_suspect_headlines,
    loss_headlines,
    pause_headlines,
    suspect_headlines,
)
from ghapp.runners.evidence import is_absent
from ghapp.runners.next_attempt import NEEDS_AN_OWNER, NOT_SCHEDULED, OVERDUE, blindness_of
from ghapp.runners.verdict import Limits, Reason, State
from ghapp.untrusted_text import shell_command
from ghapp.versions.advice import version_text
from ghapp.versions.lifetime import Urgency, VersionState
from ghapp.wording import are, counted, sentence
from ghapp.workflow_jobs.demand import UnservedJob
from ghapp.workflow_jobs.labels import listed
from ghapp.workflow_jobs.reason import STUCK

MOST_PER_KIND = 20
"""Headlines of one kind: pools, gates and phantoms can be any number. Those beyond are counted by the last one."""

_ORDER = tuple(HeadlineKind)


def headlines(fleet: FleetView, pools: Sequence[PoolView], now: float) -> list[Headline]:
    """Returns all that is wrong now, the worst first; one that all is well if nothing is. Never empty.

    Args:
        fleet: the organization's state.
        pools: from `by_pool`, of this fleet at `now`.
        now: epoch seconds.
    """
    found = [
        *_limited(_blind(fleet, now)),
        *_limited(loss_headlines(fleet, pools, now)),
        *_limited(suspect_headlines(fleet, pools, now)),
        *_limited(fuse_headlines(fleet, pools)),
        *_limited(_versions(fleet, now)),
        *_limited(_unserved(fleet, pools)),
        *_limited(_gates(fleet, pools, now)),
        *_limited(_phantoms(fleet)),
        *_limited(_unseen(fleet)),
        *_limited(pause_headlines(fleet, pools)),
        *_limited(lasting_suspect_headlines(fleet, pools, now)),
        *_limited(_in_state(fleet, pools, State.OFFLINE, now)),
        *_limited(() if fleet.is_stale(now) else _in_state(fleet, pools, State.UNKNOWN, now)),
        *_limited(_slow(fleet, pools)),
    ]
    found.sort(key=_urgency)
    return found or [_well(pools)]


def _urgency(headline: Headline) -> tuple[int, bool]:
    """Sort key: the order of kinds. What no person of the platform has to act on is below phantoms, which need one."""
    return _ORDER.index(headline.ranks_as or headline.kind), headline.severity is not Severity.CRITICAL


def holding_up(fleet: FleetView, pools: Sequence[PoolView], now: float) -> list[Headline]:
    """Returns what happens next to the lost runners of these pools, and what holds them up; for their incident."""
    names = {each.name for each in pools}
    held = [*fuse_headlines(fleet, pools), *pause_headlines(fleet, pools)]
    found = [
        *_blind(fleet, now),
        *loss_headlines(fleet, pools, now),
        *(each for each in held if not each.pool or each.pool in names),
    ]
    return sorted(found, key=_urgency)


def title_of(found: Sequence[Headline], *, names_pools: bool = False) -> str:
    """Returns a few words of each kind of headline, the worst first; they count all that is wrong of a kind.

    With `names_pools`, a kind that is about one pool has its name.
    """
    kinds: dict[HeadlineKind, list[Headline]] = {}
    for each in found:
        kinds.setdefault(each.kind, []).append(each)
    parts = []
    for kind, several in kinds.items():
        part = several[0].short
        if len(several) > 1:
            part = _TOGETHER[kind](sum(each.affected for each in several), several)
        pools = {each.pool for each in several}
        pool = pools.pop() if names_pools and len(pools) == 1 else ""
        parts.append(f"{part} ({pool})" if pool else part)
    return ", ".join(parts)


def _by_state(several: Sequence[Headline]) -> str:
    """Returns how many runners are offline, and how many unknown."""
    count = Counter[str]()
    for each in several:
        count[each.state] += each.affected
    return ", ".join(f"{counted(number, 'runner')} {state}" for state, number in count.items())


_TOGETHER: dict[HeadlineKind, Callable[[int, Sequence[Headline]], str]] = {
    HeadlineKind.LOST: lambda count, _: f"{counted(count, 'runner')} lost",
    HeadlineKind.MASS_SUSPECT: lambda count, _: f"{counted(count, 'runner')} missing at once",
    HeadlineKind.FUSE: lambda count, several: f"{count:,} fuses not closed, {several[0].short}",
    HeadlineKind.TOO_OLD: lambda count, _: f"{counted(count, 'runner')} too old",
    HeadlineKind.UNSERVED: lambda count, _: f"{counted(count, 'job')} without a runner",
    HeadlineKind.GATE: lambda count, _: f"{count:,} gates have not passed",
    HeadlineKind.PHANTOM: lambda count, _: counted(count, "phantom"),
    HeadlineKind.UNSEEN: lambda count, _: f"{count:,} sources not seen",
    HeadlineKind.PAUSED: lambda count, _: f"{count:,} pauses",
    HeadlineKind.SUSPECT: lambda count, _: f"{counted(count, 'runner')} suspect",
    HeadlineKind.OFFLINE: lambda _, several: _by_state(several),
    HeadlineKind.SLOW: lambda count, _: f"{counted(count, 'job')} waiting long",
    HeadlineKind.VERSION: lambda count, _: f"versions of {counted(count, 'runner')} end soon",
}
"""The title of several headlines of a kind, from what they count together and the worst of them."""


def _limited(found: Iterable[Headline]) -> Iterator[Headline]:
    """Returns the first headlines of one kind; the last one of them counts the others."""
    known = sorted(found, key=lambda each: (each.severity is not Severity.CRITICAL, each.since or 0.0))
    yield from known[: MOST_PER_KIND - 1]
    rest = known[MOST_PER_KIND - 1 :]
    if len(rest) == 1:
        yield rest[0]
    elif rest:
        more = f"{rest[0].sentence.removesuffix('.')}; and {len(rest) - 1:,} more like it."
        yield rest[0]._replace(sentence=more, affected=sum(each.affected for each in rest))


# ---- GitHub cannot be read


def _blind(fleet: FleetView, now: float) -> Iterator[Headline]:
    survey, attempt = fleet.view.survey, fleet.attempt
    is_failing = survey.failing_since is not None
    if survey.swept_at is None and not is_failing and not attempt.prevented_by:
        yield Headline(
            HeadlineKind.BLIND,
            Severity.ATTENTION,
            "The first list of runners has not been read yet.",
            "wait; the first sweep follows within a minute",
            page="github",
            short="no list yet",
        )
        return
    if not is_failing and not fleet.is_stale(now) and attempt.prevented_by not in (OVERDUE, NOT_SCHEDULED):
        return
    reason = survey.failure or attempt.prevented_by
    known = blindness_of(reason, fleet.org)
    code = f" ({reason})" if reason else ""
    is_critical = (fleet.is_stale(now) and reason != Reason.PERSONAL_ACCOUNT) or reason in NEEDS_AN_OWNER
    keeps = "runners are known as of the last complete list, and none is taken for lost meanwhile"
    if fleet.is_stale(now):
        keeps = "the state of the runners is unknown, and none is removed or replaced"
    link = fleet.settings_page if reason in NEEDS_AN_OWNER else ""
    has_own_step = bool(link) or "`ghapp" in known.fix or known.fix.startswith(BY_ITSELF)
    yield Headline(
        HeadlineKind.BLIND,
        Severity.CRITICAL if is_critical else Severity.ATTENTION,
        f"Runners cannot be read: {known.meaning}{code}; {keeps}.",
        known.fix,
        "" if has_own_step else "ghapp doctor",
        survey.blind_since or attempt.since or survey.swept_at,
        "github",
        short=f"runners cannot be read{code}",
        link=link,
    )


# ---- versions of the runner


_URGENCIES = {
    Urgency.NOTICE: Severity.BUSY,
    Urgency.WARNING: Severity.ATTENTION,
    Urgency.ACTION: Severity.CRITICAL,
}


def _versions(fleet: FleetView, now: float) -> Iterator[Headline]:
    """Versions that get no jobs any more, and those that end soon; without numbers that come and go with the fleet."""
    every = fleet.view.versions(fleet.runners, now) if fleet.view.may_versions_end(now) else []
    for status in every:
        if not status.is_news:
            continue
        has_ended = status.state is VersionState.ENDED
        steps = fleet.view.steps_for(status, every)
        pools = [each.pool for each in status.pools]
        text = version_text(status)
        yield Headline(
            HeadlineKind.TOO_OLD if has_ended else HeadlineKind.VERSION,
            _URGENCIES[status.urgency],
            sentence(text),
            steps[0].step if steps else "",
            shell_command("ghapp", "versions", "--org", fleet.org),
            status.jobs_end_at if has_ended else None,
            "versions",
            pools[0] if len(pools) == 1 else "",
            f"version {status.version} {'gets no jobs' if has_ended else 'ends soon'}",
            max(status.online, 1),
            f"version {status.version} {status.state} {status.urgency}",
        )


# ---- jobs


def _unserved(fleet: FleetView, pools: Sequence[PoolView]) -> Iterator[Headline]:
    """Jobs that no online runner can take, by pool; those of lost runners belong to the loss."""
    for pool, jobs in _by_pool((each for each in fleet.unserved if each.reason in STUCK), pools).items():
        reasons = ", ".join(sorted({each.reason.value for each in jobs}))
        waiting = f"{counted(len(jobs), 'job')} {'waits' if len(jobs) == 1 else 'wait'}"
        sentence = (
            f"{waiting} for {pool}, and no online runner can take {'it' if len(jobs) == 1 else 'them'} ({reasons})."
        )
        step = "see why each job waits, and what would let it start"
        if not pool:
            sentence, step = _without_pool(waiting, jobs, step)
        yield Headline(
            HeadlineKind.UNSERVED,
            Severity.ATTENTION,
            sentence,
            step,
            shell_command("ghapp", "jobs", "--unserved", "--org", fleet.org),
            min(each.job.queued_at for each in jobs),
            f"jobs?{urlencode({'state': 'unserved'} | ({'pool': pool} if pool else {}))}",
            pool,
            f"{counted(len(jobs), 'job')} without a runner",
            len(jobs),
            f"without a runner: {reasons}",
            ranks_as=HeadlineKind.UNSEEN if not pool and all(each.meant_label for each in jobs) else None,
        )


def _without_pool(waiting: str, jobs: Sequence[UnservedJob], step: str) -> tuple[str, str]:
    """Returns the sentence and the step for jobs whose labels no pool has.

    These labels are not named: they may be of a repository that not every reader may see. The labels that were probably
    meant are those of our own runners.
    """
    meant = sorted({each.meant_label for each in jobs if each.meant_label})
    if not meant:
        reasons = ", ".join(sorted({each.reason.value for each in jobs}))
        return f"{waiting}, and no pool has {'its' if len(jobs) == 1 else 'their'} labels ({reasons}).", step
    label = "a label" if len(meant) == len(jobs) == 1 else "labels"
    some = "" if all(each.meant_label for each in jobs) else "some of them "
    sentence = f"{waiting} for {label} that no runner has, {some}probably {listed(meant)} misspelt."
    return sentence, "see which jobs; the authors of their workflows change runs-on"


def _slow(fleet: FleetView, pools: Sequence[PoolView]) -> Iterator[Headline]:
    for pool, jobs in _by_pool(fleet.slow, pools).items():
        if not pool:  # its last runner left a moment ago, and the pool is not configured
            continue
        yield Headline(
            HeadlineKind.SLOW,
            Severity.ATTENTION,
            f"{counted(len(jobs), 'job')} {'waits' if len(jobs) == 1 else 'wait'} long for {pool}, whose runners are "
            "busy.",
            f"wait, or add runners to {pool}",
            shell_command("ghapp", "jobs", "--queued", "--org", fleet.org, "--pool", pool),
            min(each.job.queued_at for each in jobs),
            f"jobs?{urlencode({'pool': pool})}",
            pool,
            f"{counted(len(jobs), 'job')} waiting long",
            len(jobs),
            "waiting long",
        )


def _by_pool(jobs: Iterable[UnservedJob], pools: Sequence[PoolView]) -> dict[str, list[UnservedJob]]:
    """Returns jobs by pool; those for labels that no known pool has together, under an empty name."""
    known = {each.name for each in pools}
    found: dict[str, list[UnservedJob]] = {}
    for each in jobs:
        found.setdefault(each.pool if each.pool in known else "", []).append(each)
    return found


# ---- the gate, phantoms, and what is not seen


def _has_news(gate: GateState, limits: Limits, now: float) -> bool:
    """True if a gate failed, or waits although the deployed runners had the time to start."""
    return gate.failed_at is not None or (gate.waits and now - gate.began_at > limits.startup_seconds)


def _gates(fleet: FleetView, pools: Sequence[PoolView], now: float) -> Iterator[Headline]:
    """Gates that have not passed; the offline runners of these shards have no headline of their own."""
    known = {pool.name: pool for pool in pools}
    for place, gate in sorted(fleet.gates.items()):
        if not _has_news(gate, fleet.view.limits, now):
            continue
        pool, _, shard = place.partition("/")
        done = "has not passed since" if gate.failed_at is None else "failed after"
        deploy = (
            f"the deploy of {commit[:7] if (commit := commit_of(gate.ref)) else gate.ref}" if gate.ref else "its deploy"
        )
        subject = f"The gate of shard {shard} of {pool} {done} {deploy}"
        members = _members_of(fleet, known[pool], shard) if pool in known else []
        why = fleet.gate_failures.get(place) or _of_its_runners(members)
        yield Headline(
            HeadlineKind.GATE,
            Severity.ATTENTION,
            f"{subject}{why and f': {why}'}.",
            "see all checks and the next steps; this is over once the gate passes",
            shell_command("ghapp", "gate", fleet.org, pool, shard),
            gate.failed_at or gate.began_at,
            "gate",
            pool,
            f"gate of {shard} {'has not passed' if gate.failed_at is None else 'failed'}",
            meaning=subject,
            shard=shard,
        )


def _members_of(fleet: FleetView, pool: PoolView, shard: str) -> list[RunnerView]:
    rule = rule_named(pool.name, fleet.view.rules)
    return [each for each in pool.members if shard_of(each.evidence, rule) == shard]


def _of_its_runners(runners: Sequence[RunnerView]) -> str:
    offline = sum(each.state is State.OFFLINE for each in runners)
    return f"{offline:,} of its {counted(len(runners), 'runner')} {are(offline)} offline" if offline else ""


def _phantoms(fleet: FleetView) -> Iterator[Headline]:
    by_reason: dict[str, list[Phantom]] = {}
    for each in fleet.phantoms:
        by_reason.setdefault(each.reason.value, []).append(each)
    for reason, alike in sorted(by_reason.items()):
        more = f" and {len(alike) - 1:,} more" if len(alike) > 1 else ""
        counts = "counts as a runner" if len(alike) == 1 else "count as runners"
        what = f"{counts}, and cannot run a job"
        if alike[0].kind is PhantomKind.DEMAND_INFLATED:  # its subject is a scale set
            what = f"{'has' if len(alike) == 1 else 'have'} more runners created than jobs need"
        advice = alike[-1].advice
        yield Headline(
            HeadlineKind.PHANTOM,
            Severity.ATTENTION,
            f"{alike[0].subject}{more} {what} ({reason}).",
            advice[:1].lower() + advice[1:].removesuffix("."),
            command_of(alike[0]),
            min((at for each in alike if (at := fleet.found_since.get(key(each))) is not None), default=None),
            "#cluster",
            short=counted(len(alike), "phantom"),
            affected=len(alike),
            meaning=f"phantoms: {reason}",
        )


def _unseen(fleet: FleetView) -> Iterator[Headline]:
    for namespace in fleet.unseen:
        yield Headline(
            HeadlineKind.UNSEEN,
            Severity.ATTENTION,
            f"Namespace {namespace.namespace} is not seen: deaths, leaks and phantoms there go unnoticed.",
            "check that `ghapp watch` runs and reaches the API server",
            "ghapp doctor",
            namespace.seen_at,
            short=f"namespace {namespace.namespace} not seen",
        )
    for source in fleet.degraded_sources:
        yield Headline(
            HeadlineKind.UNSEEN,
            Severity.ATTENTION,
            f"Not seen: {source.place}: {source.why}.",
            "grant what is missing, or restore the source",
            "ghapp doctor",
            short=f"{source.place} not seen",
        )


# ---- offline runners


_LISTED_AS = {
    State.OFFLINE: ("registered, and GitHub lists {them} as offline", "start what is offline, or check its network"),
    State.UNKNOWN: ("no recent observation is reliable", "nothing to do if it does not stay so; sweeps go on"),
}
"""What a state means, and what to do."""


_ASK_THE_GATE = "see what the gate says before starting one by hand, as it would take users' jobs on an inactive shard"


def _in_state(fleet: FleetView, pools: Sequence[PoolView], state: State, now: float) -> Iterator[Headline]:
    """The runners that `PoolView.count` counts, without those that the headline of their shard's gate counts.

    Where all of them are phantoms, the headline of these says it all. What is no runner cannot be started; in its first
    two minutes it is not known yet whether it is one. A runner of an inactive shard is not to be started by hand, for
    it would take users' jobs beside the active shard.
    """
    for pool in pools:
        subjects = {each.subject for each in fleet.phantoms if each.pool in ("", pool.name)}
        found = [each for each in pool.members if each.state is state]
        if state is State.OFFLINE and found:
            found = _without_gates(fleet, pool, found, now)
        phantoms = sum(each.evidence.name in subjects for each in found)
        if phantoms < len(found):
            meaning, step = _LISTED_AS[state]
            meaning = meaning.format(them="it" if len(found) == 1 else "them")
            command = shell_command("ghapp", "runners", "--org", fleet.org, "--pool", pool.name, "--state", state.value)
            possible = sum(each.evidence.name in fleet.possible_phantoms - subjects for each in found)
            shards = _shards_of(fleet, pool, found) if state is State.OFFLINE else Counter[str]()
            if shards:
                ((most, _),) = shards.most_common(1)
                meaning += f", of {'shard ' + most if len(shards) == 1 else counted(len(shards), 'shard')}"
                step, command = _ASK_THE_GATE, shell_command("ghapp", "gate", fleet.org, pool.name, most)
            if phantoms:
                meaning += f"; {phantoms:,} of them {are(phantoms)} {'a phantom' if phantoms == 1 else 'phantoms'}"
            if possible:
                meaning += f"; {may_be_phantoms(possible, len(found))}"
            if phantoms + possible == len(found):
                step, command = KNOWN_SOON, ""
            elif phantoms or possible:
                step = f"{step}; phantoms apart"
            if granted := sum(each.evidence.granted_at is not None for each in found):
                meaning += f"; the replacement of {granted:,} is granted"
            yield Headline(
                HeadlineKind.OFFLINE,
                Severity.ATTENTION,
                f"{len(found):,} of {counted(pool.total, 'runner')} of {pool.name} {are(len(found))} {state}: "
                f"{meaning}.",
                step if granted < len(found) else "nothing to do: replacement goes on by itself",
                command,
                since=first_since(found),
                page=runners_page(pool.name, state),
                pool=pool.name,
                short=f"{counted(len(found), 'runner')} {state}",
                affected=len(found),
                meaning=f"{'all' if len(found) == pool.total else 'some'} {state}",
                state=state.value,
            )


def _without_gates(fleet: FleetView, pool: PoolView, offline: Sequence[RunnerView], now: float) -> list[RunnerView]:
    limits, rule = fleet.view.limits, rule_named(pool.name, fleet.view.rules)
    places = {place for place, gate in fleet.gates.items() if _has_news(gate, limits, now)}
    return [each for each in offline if place_of(pool.name, shard_of(each.evidence, rule) or "") not in places]


def _shards_of(fleet: FleetView, pool: PoolView, runners: Iterable[RunnerView]) -> Counter[str]:
    """Returns how many of these runners of a pool each of its shards has."""
    rule = rule_named(pool.name, fleet.view.rules)
    shards = (shard_of(each.evidence, rule) for each in runners)
    return Counter(shard for shard in shards if shard is not None)


def _well(pools: Sequence[PoolView]) -> Headline:
    count = sum((pool.count for pool in pools), Counter[State]())
    total, starting, suspect = sum(pool.total for pool in pools), count[State.STARTING], count[State.SUSPECT]
    unlisted = sum(each.state is State.STARTING and is_absent(each.evidence) for pool in pools for each in pool.members)
    well = total - unlisted
    if not total:
        sentence = "No runner is listed" if suspect else "No runner is registered"
    elif unlisted:
        sentence = f"{well:,} of {counted(total, 'runner')} {'is' if total == 1 else are(well)} healthy"
    else:
        are_well = f"{counted(total, 'runner')} {are(total)} healthy"
        if not suspect:
            are_well = "The only runner is healthy" if total == 1 else f"All {are_well}"
        sentence = f"{are_well}{f', {starting:,} of them starting' if starting else ''}"
    parts = [f"{suspect:,} left GitHub's list and {are(suspect)} being checked"] if suspect else []
    if unlisted:
        parts.append(f"{unlisted:,} {are(unlisted)} new and not in GitHub's list, as runners that start may be")
    sentence = f"{'; '.join([sentence, *parts])}."
    healthy = f"{well:,} of {counted(total, 'runner')}" if unlisted else counted(total, "runner")
    short = f"{healthy} healthy" if total else "no runner is registered"
    if suspect:
        short = f"{healthy if total else 'no runner'} healthy, {suspect:,} being checked"
    return Headline(HeadlineKind.WELL, Severity.GOOD, sentence, page="runners", short=short, meaning="well")
