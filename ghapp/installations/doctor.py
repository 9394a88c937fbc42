"""Checks each organization: permissions, sweeps, budget, fuses and pauses, and its report repository."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterable, Mapping, Sequence

from ghapp.deliveries.doctor import of_gaps
from ghapp.doctor.finding import Finding, FindingStatus, ok, probe, warning, wrong
from ghapp.doctor.github import report_repositories
from ghapp.doctor.roles import starting
from ghapp.installations.installation import Installation, known_as, poster_of, repository_scope, stale_name
from ghapp.installations.pacing import left
from ghapp.installations.pool_matching import ALL_POOLS, PoolRule
from ghapp.installations.scope import ENTERPRISES, ScopeKind, absence, kind_of
from ghapp.remediation.fuse import Fuse, Position, resume_command
from ghapp.remediation.pause import Pause
from ghapp.report.check_run_state import PostFailure, repository_of
from ghapp.report.documents import pause_in_words
from ghapp.runners.delivery_lag import completeness, was_confirmed_without_deliveries
from ghapp.runners.evidence import Evidence, Survey
from ghapp.runners.next_attempt import BLINDNESS, NextAttempt, blindness_of, next_attempt
from ghapp.runners.texts import fuse_history
from ghapp.runners.verdict import Reason, judge
from ghapp.settings import Settings
from ghapp.store.connect import PipeliningRedis
from ghapp.store.stores import Stores, open_stores, stores_over
from ghapp.versions.doctor import check_versions
from ghapp.wording import DOCS, time_of
from ghapp.workflow_jobs.labels import nearest_label, normalized

GROUP = "installations"
STALE_SWEEPS = 3
"""Sweep intervals that may pass before the last sweep counts as stale."""

DEFERRED_SECONDS = 900.0
"""Some time more than GitHub's points take for the tokens of two thousand installations."""

UNKNOWN_ATTEMPT = NextAttempt()

REDIS_FAILED = "the connection to Redis was lost, or its user may not read our keys; see redis above"


async def check(
    settings: Settings,
    url: str | None,
    listed: Sequence[Installation] | None,
    started_at: float | None = None,
    *,
    ask_for_repositories: bool = True,
) -> list[Finding]:
    """Checks each installation, from what GitHub lists and from our records.

    Args:
        settings: names orgs, and their pools.
        url: of Redis; None when Redis is unavailable.
        listed: the App's installations as GitHub lists them; None when GitHub gave no list: our records count then.
        started_at: when the workers started (epoch seconds); None: unknown.
        ask_for_repositories: False: GitHub is not asked for report repositories, which costs installations' calls.
    """
    known = list(listed) if listed is not None else None

    async def check_records() -> list[Finding]:
        nonlocal known
        if url is None:
            return []
        async with open_stores(url, settings.named) as stores:
            records, owners = await stores.installations.all(), await stores.installations.owners()
            if known is None:
                known = records
            else:
                present = [known_as(each, records, settings.named, owners) for each in known]
                remaining = {each.id for each in present}
                scopes = [each for each in records if each.kind is ScopeKind.ENTERPRISE or each.parent in remaining]
                known = [*present, *scopes]
            reader = stores_over(PipeliningRedis(stores.redis))
            found = await asyncio.gather(*(_of_records(settings, reader, each, started_at) for each in known))
            return [each for several in found for each in several]

    recorded = await probe(GROUP, "records", check_records, REDIS_FAILED)
    repositories: list[Finding] = []
    if ask_for_repositories:
        repositories = await probe(GROUP, "report", lambda: _of_repositories(settings, url, known or []), REDIS_FAILED)
    if known is None:
        return recorded
    found = (
        []
        if known or settings.credentials is None  # without an App there is none to install
        else [warning(GROUP, "installed", "the App is not installed anywhere", "install it on an organization")]
    )
    for installation in known:
        has_pool = bool(settings.pools_of(installation.org))
        found += of_name(installation, settings.named)
        found += of_installation(installation, settings.web_url, has_pool=has_pool)
        found += of_reruns(installation, settings)
    swept = {each.org for each in recorded if each.name == "sweeps" and each.status is FindingStatus.OK}
    found += of_scopes(settings, known, swept)
    names = [name for each in known for name in each.own]
    # One finding per org and name: a recorded problem replaces an unverified repository, and any other result of the
    # repository check replaces the recorded one.
    with_problem = {(each.org, each.name) for each in recorded if each.status is not FindingStatus.OK}
    repositories = [
        each for each in repositories if each.status is FindingStatus.WRONG or (each.org, each.name) not in with_problem
    ]
    replaced = {(each.org, each.name) for each in repositories}
    recorded = [each for each in recorded if (each.org, each.name) not in replaced]
    return [*found, *recorded, *repositories, *of_unknown_orgs(settings, names), *of_report_owners(settings, names)]


async def _of_records(
    settings: Settings, stores: Stores, installation: Installation, started_at: float | None = None
) -> list[Finding]:
    now, policy, org = time.time(), settings.of(installation.org), installation.org
    survey, allowance, sweep_at, discovery_at = await asyncio.gather(
        stores.runners.survey(installation.id),
        stores.budget.left(installation.caller, now),
        stores.schedule.next(installation.id),
        stores.schedule.next_discovery(),
    )
    fuses, pauses, standing = await asyncio.gather(
        stores.fuses.all(installation.id),
        stores.fuses.pauses(installation.id),
        stores.reports.check_run_state(installation.id),
    )
    facts = (await stores.delivery_status.facts([installation.caller]))[installation.caller]
    gaps = completeness(facts, now)
    runners = (await stores.runners.all(installation.id)).values()
    # Only then may any runner wait for deliveries.
    waiting = runners if gaps else ()
    reasons = [judge(each, survey, now, policy.evidence).reason for each in waiting]
    repository = repository_of(policy.report.repository, org)
    attempt = next_attempt(installation, survey, sweep_at, discovery_at, now)
    return [
        *of_sweeps(org, survey, policy.sweep.interval_seconds, now, attempt, started_at),
        *of_budget(org, left(allowance, policy.budget)),
        *of_remediation(org, fuses, pauses),
        *of_pool_labels(org, settings.pools_of(org), runners),
        *of_gaps(
            org,
            gaps,
            waiting=reasons.count(Reason.DELIVERIES_BEHIND),
            without=sum(map(was_confirmed_without_deliveries, waiting)),
            now=now,
            started_at=started_at if starting(started_at, now) else None,
        ),
        *of_report(org, installation.at_github(repository) if repository else None, standing.setback),
        *await check_versions(settings, stores, installation, now),
    ]


def of_pool_labels(org: str, rules: Sequence[PoolRule], runners: Iterable[Evidence]) -> list[Finding]:
    """Returns a warning for each pool without a runner that has a label like one that no pool names: a misspelt one.

    A pool without runners may be scaled down to none; so without such a label there is nothing to report.
    """
    label_sets = {normalized(each.labels) for each in runners if each.registered}
    named = frozenset[str]().union(*(normalized(rule.labels) for rule in rules))
    unnamed = frozenset[str]().union(*label_sets) - named
    found = []
    for rule in rules:
        labels = normalized(rule.labels)
        if not label_sets or any(labels <= each for each in label_sets):
            continue
        for label in sorted(labels):
            if any(label in each for each in label_sets) or (near := nearest_label(label, unnamed)) is None:
                continue
            fix = f"did you mean {near}? Set the labels of this pool to labels that its runners have"
            found.append(warning(GROUP, f"pool {rule.name}", f"no runner has its label {label}", fix, org))
    return found


async def _of_repositories(settings: Settings, url: str | None, installations: Iterable[Installation]) -> list[Finding]:
    """Returns findings for report repositories that their installation cannot see, or that could not be verified."""
    known, named = list(installations), list[tuple[str, Installation, str]]()
    for each in known:
        repository = repository_of(settings.of(each.org).report.repository, each.org)
        poster = None if repository is None or each.suspended else poster_of(each, repository, known)
        if repository is not None and poster is not None:
            named.append((each.org, poster, poster.at_github(repository)))
    if url is None or settings.credentials is None or not named:
        return []
    asked = [(poster, repository) for _, poster, repository in named]
    found = await report_repositories(settings, settings.credentials, url, asked)
    return [
        finding
        for org, poster, repository in named
        for finding in of_repository(
            org,
            repository,
            is_known=(poster.id, repository) in found,
            is_private=found.get((poster.id, repository)),
        )
    ]


def of_name(installation: Installation, named: Collection[str]) -> list[Finding]:
    """Warns of an organization that was renamed on GitHub but not in the configuration."""
    found = stale_name(installation, named)
    return [] if found is None else [warning(GROUP, "name", found.text, found.fix, installation.org)]


def of_installation(installation: Installation, web_url: str, *, has_pool: bool) -> list[Finding]:
    """Checks what the organization permits the App to do; of a repository's scope, its owner."""
    org = installation.org
    page = installation.settings_address(web_url)
    if installation.suspended:
        return [wrong(GROUP, "suspended", "the organization suspended the App", f"unsuspend the App at {page}", org)]
    if installation.is_personal:
        return [ok(GROUP, "account", f"{org} is a person's account; scopes of its repositories are swept", org)]
    if installation.kind is ScopeKind.REPOSITORY and not installation.may_remove_runners():
        found = [_of_administration(installation, page)]
    elif missing := installation.missing():
        found = [
            wrong(GROUP, "permissions", f"not granted: {', '.join(missing)}", f"an owner accepts them at {page}", org)
        ]
    else:
        found = [ok(GROUP, "permissions", "all permissions are granted", org)]
    if not has_pool:
        fix = f'add [[pools]] with org = "{org}", if lost runners should be replaced'
        found.append(warning(GROUP, "pools", f"no pool is configured for this {installation.kind}", fix, org))
    return found


def _of_administration(installation: Installation, page: str) -> Finding:
    """Reports what the optional permission for repositories' runners lacks, with the words for the owner."""
    org, level = installation.org, "read" if installation.may_read_runners() else "none"
    setting = "Repository: Administration in the App's settings"
    if level == "none":
        text = "administration: read, which is optional, is not granted: runners of repositories are not read"
        fix = f"set {setting} to read, or to read and write to have lost runners removed; an owner accepts it at {page}"
        return wrong(GROUP, "permissions", text, fix, org)
    text = "administration: read is granted, write is not: lost runners are reported, and neither removed nor replaced"
    fix = f"set {setting} to read and write, if they should be; an owner accepts it at {page}"
    return warning(GROUP, "permissions", text, fix, org)


def of_scopes(settings: Settings, known: Sequence[Installation], swept: Collection[str | None] = ()) -> list[Finding]:
    """Reports rows of `[[scopes]]` that find nothing, and the missing token of an enterprise.

    Args:
        settings: with the rows.
        known: all installations and scopes.
        swept: the scopes that are swept now: the workers have the token of such an enterprise.
    """
    found = []
    orgs = {each.org.lower() for each in known}
    accounts = [each for each in known if each.kind is ScopeKind.ORGANIZATION]
    for rule in settings.scopes:
        owner = next((each for each in accounts if each.answers_to(rule.owner)), None)
        named = rule.repository or rule.repositories or f"{ENTERPRISES}/{rule.enterprise}"
        if rule.enterprise is not None:
            if not settings.enterprise_tokens and named not in swept:
                text = "GHAPP_ENTERPRISE_TOKEN is not set here: workers need it to read the enterprise's runners"
                need = "a classic token with manage_runners:enterprise"
                fix = f"set it for the workers to {need}; see {DOCS}/scopes.md"
                found.append(warning(GROUP, f"scope {named}", text, fix, named))
        elif owner is None:
            fix = f"install the App on {rule.owner}, or fix the name in [[scopes]]"
            found.append(wrong(GROUP, f"scope {named}", f"{named}: the App is not installed on {rule.owner}", fix))
        elif rule.repository and f"{owner.org}/{named.partition('/')[2]}".lower() not in orgs:
            text = f"{named}: the App sees no such repository, or it is archived; it is looked for every five minutes"
            found.append(
                wrong(
                    GROUP, f"scope {named}", text, "give the App access to it, or fix the name in [[scopes]]", owner.org
                )
            )
        elif rule.repositories and not repository_scope(owner, 1, "any", "any").may_read_runners():
            text = f"{named}: administration: read is not granted, so that no repository can be asked for runners"
            fix = "set Repository: Administration to read in the App's settings; then an owner accepts it"
            found.append(wrong(GROUP, f"scope {named}", text, fix, owner.org))
    return found


def of_reruns(installation: Installation, settings: Settings) -> list[Finding]:
    """Checks that jobs can be run again where a pool says so; the permission is optional."""
    org, modes = installation.org, {pool.rerun.mode for pool in settings.pools_of(installation.org)}
    if installation.suspended or modes <= {"off"}:
        return []
    if installation.may("actions", "write"):
        return [ok(GROUP, "re-runs", "actions: write is granted", org)]
    if "auto" in modes:
        fix = "set Repository: Actions to read and write in the App's settings; then an owner accepts it"
        return [wrong(GROUP, "re-runs", 'a pool has rerun mode "auto": actions: write is not granted', fix, org)]
    text = f"no button on post-mortems: actions: write, which is optional, is not granted; see {DOCS}/jobs.md"
    return [ok(GROUP, "re-runs", text, org)]


def of_sweeps(
    org: str,
    survey: Survey,
    interval: float,
    now: float,
    attempt: NextAttempt = UNKNOWN_ATTEMPT,
    started_at: float | None = None,
) -> list[Finding]:
    """Checks that the installation is swept; if not, reports what prevents it and when the next attempt is due.

    `started_at` is when the workers started (epoch seconds); None: unknown.
    """
    due = "no next attempt is planned" if attempt.at is None else f"next attempt due {time_of(attempt.at)}"
    reason = survey.failure if survey.failing_since is not None else attempt.prevented_by
    if survey.blind_since is not None:
        known = blindness_of(reason, org)
        text = f"no complete list since {time_of(survey.blind_since)}: {known.meaning} ({reason}); {due}"
        return [wrong(GROUP, "sweeps", text, known.fix, org)]
    if reason == Reason.RATE_LIMITED and now - (attempt.since or 0.0) <= DEFERRED_SECONDS:
        text = f"deferred, because tokens of other installations use GitHub's points of the minute; {due}"
        return [ok(GROUP, "sweeps", text, org)]
    if reason == Reason.PERSONAL_ACCOUNT:
        return [ok(GROUP, "sweeps", BLINDNESS[reason].meaning, org)]
    if reason in BLINDNESS:
        found = blindness_of(reason, org)
        return [wrong(GROUP, "sweeps", f"{found.meaning} ({reason}); {due}", found.fix, org)]
    if survey.swept_at is None and (just_started := starting(started_at, now)):
        return [ok(GROUP, "sweeps", f"not swept yet: {just_started}; {due}", org)]
    if survey.swept_at is None:
        return [warning(GROUP, "sweeps", f"never swept; {due}", "wait a minute; then see roles above", org)]
    age = now - survey.swept_at
    if age > STALE_SWEEPS * interval:
        fix = "check the budget below, which paces sweeps, and the workers and their queues above"
        return [warning(GROUP, "sweeps", f"last swept {age:.0f} s ago; {due}", fix, org)]
    return [ok(GROUP, "sweeps", f"{survey.total} runners, {age:.0f} s ago", org)]


def of_budget(org: str, left: int) -> list[Finding]:
    """Reports how many calls the sweeps have left in this hour."""
    if left:
        return [ok(GROUP, "budget", f"{left} calls left for sweeps", org)]
    fix = "raise [budget] share, or [sweep] interval_seconds; the budget resets within the hour"
    return [warning(GROUP, "budget", "the sweeps' share of the budget is spent", fix, org)]


def of_remediation(org: str, fuses: Mapping[str, Fuse], pauses: Mapping[str, Pause]) -> list[Finding]:
    """Reports fuses that are not closed, and pauses."""
    found = []
    for pool, fuse in fuses.items():
        whole = pool == ALL_POOLS
        name = "fuse of all pools" if whole else f"fuse {pool}"
        if fuse.position is Position.STOPPED:
            fix = f"find the cause, then run `{resume_command(org, pool)}`"
            found.append(wrong(GROUP, name, f"stopped: {fuse_history(fuse, str)}", fix, org))
        elif fuse.position is Position.PROVING:
            is_paused = pool in pauses or ALL_POOLS in pauses
            fix = "wait: remediation continues by itself when replacements come online"
            fix = "nothing is replaced while the pause below holds" if is_paused else fix
            found.append(warning(GROUP, name, f"proving: {fuse_history(fuse, str)}", fix, org))
    for pool, pause in pauses.items():
        whole = pool == ALL_POOLS
        fix = f"`{resume_command(org, None if whole else pool)}`"
        name = "pause of all pools" if whole else f"pause {pool}"
        found.append(warning(GROUP, name, f"paused {pause_in_words(pause)}", fix, org))
    return found


NO_ANSWER = "unavailable"
"""Of a post that failed: GitHub did not answer, or answered with an error."""


def of_report(org: str, repository: str | None, setback: PostFailure | None) -> list[Finding]:
    """Checks that the check run is posted; `setback` is the last failure to post it."""
    if repository is None:
        return []
    if setback is None:
        return [ok(GROUP, "report", repository, org)]
    again = f"the next try is at {time_of(setback.until)}"
    fix = f"the App needs checks: write and access to the repository, and the repository needs a commit; {again}"
    if setback.reason == NO_ANSWER:
        fix = "nothing to do while GitHub does not answer; each change is tried again every ten seconds"
    text = f"not posted to {repository} since {time_of(setback.since)}: {setback.reason}"
    return [warning(GROUP, "report", text, fix, org)]


def of_repository(org: str, repository: str, *, is_known: bool, is_private: bool | None) -> list[Finding]:
    """Reports a report repository that the installation cannot see, and one that everyone can.

    Args:
        org: the organization.
        repository: `owner/name`.
        is_known: False if GitHub gave no answer about it.
        is_private: None if the installation cannot see it.
    """
    if not is_known:
        text = f"{repository}, not verified: GitHub gave no answer about it; run doctor again"
        return [ok(GROUP, "report", text, org)]
    if is_private is None:
        fix = "name an existing repository in [report] repository, and give the App access to it"
        text = f"the App cannot see the repository {repository}: no check run is posted"
        return [wrong(GROUP, "report", text, fix, org)]
    if not is_private:
        fix = "name a private repository in [report] repository"
        text = f"{repository} is public: everyone reads the names of runners and pools, and the reasons of pauses"
        return [warning(GROUP, "report", text, fix, org)]
    return []


def of_report_owners(settings: Settings, installed: Iterable[str]) -> list[Finding]:
    """Reports repositories whose owner is not an organization with the App: no check run can be posted there."""
    logins = {org.lower() for org in installed}
    policies = [(None, settings.policy), *settings.org_policies.items()]
    named = {policy.report.repository: org for org, policy in reversed(policies) if policy.report.repository}
    fix = 'write [report] repository = "owner/name" with an organization where the App is installed'
    return [
        wrong(GROUP, "report", f"[report] repository is {repository}: the App is not installed there", fix, org)
        for repository, org in sorted(named.items())
        if repository.partition("/")[0].lower() not in logins
    ]


def of_unknown_orgs(settings: Settings, installed: Iterable[str]) -> list[Finding]:
    """Reports orgs that the configuration names but where the App is not installed, and scopes that no rule takes."""
    named = {pool.org.lower(): pool.org for pool in settings.pools} | {org: org for org in settings.org_policies}
    logins = {org.lower() for org in installed}
    return [_of_unknown(settings, org) for login, org in sorted(named.items()) if login not in logins]


def _of_unknown(settings: Settings, org: str) -> Finding:
    text = f"the configuration names it, but {absence(org)}"
    fix = "install the App there, or fix the name: the organization may have been renamed before the App was installed"
    if kind_of(org) is ScopeKind.ORGANIZATION:
        return wrong(GROUP, "installed", text, fix, org)
    if any(each.is_for(org) for each in settings.scopes):  # see `of_scopes` for those that are named
        return ok(GROUP, "installed", "no runner was registered there within a day, or it was not found yet", org)
    key = "enterprise" if kind_of(org) is ScopeKind.ENTERPRISE else "repository"
    name = org.partition("/")[2] if key == "enterprise" else org
    return wrong(GROUP, "installed", text, f'add [[scopes]] {key} = "{name}", or fix the name', org)
