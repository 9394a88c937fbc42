"""What was found, and what to do about it. Pure: values in, findings out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import urlsplit

from ghapp.github.app import Delivered, Hook, Registration
from ghapp.health.document import timestamp
from ghapp.health.evidence import Survey
from ghapp.health.fuse import Fuse, Position
from ghapp.health.installation import LEVELS, NEEDED, Installation
from ghapp.health.posting import Setback
from ghapp.settings import Settings
from ghapp.store.fuses import Pause

SKEW_WARNING, SKEW_WRONG = 30.0, 60.0
"""Seconds. A JWT is issued a minute back; beyond that GitHub takes it for one of the future."""

LOOPBACK = ("127.0.0.1", "localhost", "::1", "[::1]")
STALE_SWEEPS = 3
"""Intervals without a sweep that are still nothing to worry about."""


class Status(StrEnum):
    """How bad it is. Only `wrong` fails the command."""

    OK = "ok"
    WARNING = "warning"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: what was found, and, when it is not well, what to do."""

    group: str
    name: str
    status: Status
    said: str
    fix: str | None = None
    org: str | None = None


def ok(group: str, name: str, said: str, org: str | None = None) -> Finding:
    """All is well."""
    return Finding(group, name, Status.OK, said, None, org)


def warning(group: str, name: str, said: str, fix: str, org: str | None = None) -> Finding:
    """It works, and will hurt."""
    return Finding(group, name, Status.WARNING, said, fix, org)


def wrong(group: str, name: str, said: str, fix: str, org: str | None = None) -> Finding:
    """It does not work."""
    return Finding(group, name, Status.WRONG, said, fix, org)


def of_configuration(settings: Settings, environ: Mapping[str, str]) -> list[Finding]:
    """The file, the credentials, the pools."""
    group, file = "configuration", environ.get("GHAPP_CONFIG")
    found = [ok(group, "file", file) if file else ok(group, "file", "none: every default holds")]
    if settings.credentials is None:
        found.append(
            wrong(group, "credentials", "there is no App", "run `ghapp up` and open /setup, or set GHAPP_APP_ID …")
        )
    else:
        where = "the environment" if environ.get("GHAPP_APP_ID") else str(settings.state_dir)
        found.append(ok(group, "credentials", f"App {settings.credentials.app_id}, from {where}"))
    modes: list[tuple[str | None, str]] = [(None, settings.policy.remediation.mode)]
    modes += [(name, policy.remediation.mode) for name, policy in settings.org_policies.items()]
    for org, mode in modes:
        if mode != "act":
            said = f"remediation is {mode}: nothing is removed or replaced"
            found.append(warning(group, "mode", said, 'set [remediation] mode = "act" when you trust it', org))
    if not settings.pools:
        fix = "name them in [[pools]], with a replacer; without one controllers must pull"
        found.append(warning(group, "pools", "no pool is configured", fix))
    return found + [ok(group, f"pool {pool.name}", f"replaced by {pool.replacer}", pool.org) for pool in settings.pools]


def of_redis(url: str, milliseconds: float, info: Mapping[str, object], policy: str) -> list[Finding]:
    """How it answers, and whether it keeps what it is given."""
    group, host = "redis", urlsplit(url).hostname or "this machine"
    used = int(str(info.get("used_memory", 0))) / 2**20
    found = [ok(group, "answers", f"{info.get('redis_version')} in {milliseconds:.1f} ms, {used:.0f} MiB used")]
    if str(info.get("aof_enabled")) == "1":
        found.append(ok(group, "persistence", "appendonly"))
    else:
        fix = "set `appendonly yes`: a restart forgets who is lost, and deliveries that wait"
        found.append(warning(group, "persistence", "appendonly is off", fix))
    if policy == "noeviction":
        found.append(ok(group, "eviction", policy))
    else:
        fix = "set `maxmemory-policy noeviction`: an evicted record is a runner forgotten"
        found.append(warning(group, "eviction", f"maxmemory-policy is {policy or 'not told'}", fix))
    if url.startswith("redis://") and host not in LOOPBACK:
        fix = "use rediss:// and an ACL user: whoever writes there gives work to the workers"
        found.append(warning(group, "transport", f"no TLS to {host}", fix))
    return found


def of_roles(workers: int, clocks: Sequence[str], queues: Mapping[str, int], failed: int) -> list[Finding]:
    """Who works."""
    group = "roles"
    found = [
        ok(group, "workers", f"{workers} alive")
        if workers
        else wrong(group, "workers", "none is alive", "start `ghapp worker`"),
        ok(group, "clocks", f"{len(clocks)} alive")
        if clocks
        else wrong(group, "clocks", "none is alive: nothing is swept", "start `ghapp clock`; two, for availability"),
    ]
    waiting = ", ".join(f"{name} {count}" for name, count in queues.items() if count) or "nothing"
    found.append(ok(group, "queues", f"waiting: {waiting}"))
    if failed:
        found.append(warning(group, "failed jobs", f"{failed} in the last hour", "see `job failed` in the log"))
    return found


def of_inbox(lag: int, dead: int) -> list[Finding]:
    """What was delivered and has no effect yet."""
    group = "roles"
    found = [ok(group, "inbox", f"{lag} wait")]
    if dead:
        fix = "see why with `ghapp deliveries dead`; replay them with `ghapp deliveries replay --all`"
        found.append(warning(group, "given up", f"{dead} deliveries had no effect", fix))
    return found


def of_app(app: Registration, skew: float) -> list[Finding]:
    """The App's own registration, and our clock against GitHub's."""
    group = "github"
    found = [ok(group, "app", f"{app.name}, of {app.owner}")]
    ahead = f"our clock is {abs(skew):.0f} s {'behind' if skew > 0 else 'ahead of'} GitHub's"
    fix = "run NTP here: GitHub refuses tokens that are issued in its future"
    if abs(skew) > SKEW_WRONG:
        found.append(wrong(group, "clock", ahead, fix))
    elif abs(skew) > SKEW_WARNING:
        found.append(warning(group, "clock", ahead, fix))
    else:
        found.append(ok(group, "clock", f"within {max(1, round(abs(skew)))} s of GitHub's"))
    missing = [f"{name}: {level}" for name, level in NEEDED.items() if not _holds(app.permissions, name, level)]
    if missing:
        fix = f"add them under Permissions at {app.url}, and have each organization accept"
        found.append(wrong(group, "permissions", f"the App does not ask for {', '.join(missing)}", fix))
    if "workflow_job" not in app.events:
        fix = f"subscribe to `Workflow job` under Permissions & events at {app.url}"
        found.append(wrong(group, "events", "the App is not told of jobs", fix))
    return found


def of_hook(hook: Hook, deliveries: Sequence[Delivered], public_url: str | None) -> list[Finding]:
    """Where deliveries go, and whether they arrive."""
    group, expected = "deliveries", f"{public_url}/webhook" if public_url else None
    found = []
    if not hook.url or "example.com" in hook.url:
        fix = "in the App's settings on GitHub make the webhook active, with the address of /webhook and its secret"
        found.append(warning(group, "webhook", "GitHub delivers nothing: the webhook leads nowhere", fix))
    elif expected is not None and hook.url.rstrip("/") != expected:
        fix = f"set it to {expected} in the App's settings on GitHub, or mend GHAPP_PUBLIC_URL"
        found.append(wrong(group, "webhook", f"it leads to {hook.url}", fix))
    else:
        found.append(ok(group, "webhook", hook.url))
    if not hook.is_signed:
        fix = "set a secret in the App's settings on GitHub, and the same as GHAPP_WEBHOOK_SECRET"
        found.append(wrong(group, "secret", "deliveries are not signed, and are refused", fix))
    return [*found, *_of_deliveries(group, deliveries)]


def _of_deliveries(group: str, deliveries: Sequence[Delivered]) -> list[Finding]:
    failed = [each for each in deliveries if not 200 <= each.status < 300]  # noqa: PLR2004
    if not deliveries:
        fix = (
            "check the webhook above; until they come, a short-lived runner whose whole job falls between two sweeps "
            "looks lost, and is replaced once too often"
        )
        return [warning(group, "arrivals", "GitHub has delivered nothing in three days", fix)]
    if not failed:
        return [ok(group, "arrivals", f"the last {len(deliveries)} arrived")]
    last = failed[0]
    said = f"{len(failed)} of the last {len(deliveries)} failed: {last.status} {last.said} at {timestamp(last.at)}"
    fix = "see Advanced in the App's settings on GitHub; what failed is asked for again by itself"
    all_failed = len(failed) == len(deliveries)
    return [wrong(group, "arrivals", said, fix) if all_failed else warning(group, "arrivals", said, fix)]


def of_installation(installation: Installation, web_url: str, *, has_pool: bool) -> list[Finding]:
    """What an organization lets the App do."""
    org = installation.org
    page = f"{web_url}/organizations/{org}/settings/installations/{installation.id}"
    if installation.suspended:
        return [
            wrong("installations", "suspended", "the organization suspended the App", f"unsuspend it at {page}", org)
        ]
    missing = installation.missing()
    found = [
        wrong(
            "installations",
            "permissions",
            f"not granted: {', '.join(missing)}",
            f"an owner accepts them at {page}",
            org,
        )
        if missing
        else ok("installations", "permissions", "all are granted", org)
    ]
    if not has_pool:
        fix = f'add [[pools]] with org = "{org}", if lost runners are to be replaced'
        found.append(warning("installations", "pools", "no pool is configured for it", fix, org))
    return found


def of_sweeps(org: str, survey: Survey, interval: float, left: int, now: float) -> list[Finding]:
    """Whether it is being looked at."""
    group = "installations"
    found = []
    if survey.failing_since is not None:
        said = f"no complete list since {timestamp(survey.failing_since)}: {survey.failure}"
        found.append(wrong(group, "sweeps", said, f"run `ghapp sweep --org {org} --dry-run` to see why", org))
    elif survey.swept_at is None:
        found.append(warning(group, "sweeps", "never swept", "wait a minute; then see roles, above", org))
    elif now - survey.swept_at > STALE_SWEEPS * interval:
        said = f"last swept {now - survey.swept_at:.0f} s ago"
        found.append(warning(group, "sweeps", said, "see the clock and the workers, above, or the budget, below", org))
    else:
        found.append(ok(group, "sweeps", f"{survey.total} runners, {now - survey.swept_at:.0f} s ago", org))
    spent = "raise [budget] share, or [sweep] interval_seconds; it begins anew within the hour"
    found.append(
        ok(group, "budget", f"{left} calls left for sweeps", org)
        if left
        else warning(group, "budget", "the share of sweeps is spent", spent, org)
    )
    return found


def of_remediation(org: str, fuses: Mapping[str, Fuse], pauses: Mapping[str, Pause]) -> list[Finding]:
    """What holds it back."""
    found = []
    for pool, fuse in fuses.items():
        if fuse.position is Position.STOPPED:
            fix = f"find out why, then `ghapp resume {org} --pool {pool}`"
            found.append(wrong("installations", f"fuse {pool}", f"stopped: {fuse.reason}", fix, org))
        elif fuse.position is Position.PROVING:
            fix = "watch it: it goes on by itself when replacements come online"
            found.append(warning("installations", f"fuse {pool}", f"proving: {fuse.reason}", fix, org))
    for pool, pause in pauses.items():
        fix = f"`ghapp resume {org}`" + ("" if pool == "*" else f" --pool {pool}")
        said = f"paused by {pause.who} since {timestamp(pause.at)}: {pause.why}"
        found.append(warning("installations", f"pause {pool}", said, fix, org))
    return found


def of_report(org: str, repository: str | None, setback: Setback | None) -> list[Finding]:
    """Whether admins see the check run."""
    if repository is None:
        return []
    if setback is None:
        return [ok("installations", "report", repository, org)]
    fix = "the App needs checks: write there, the repository must be among those it may see, and have a commit"
    return [warning("installations", "report", f"not posted to {repository}: {setback.reason}", fix, org)]


def of_unknown_orgs(settings: Settings, installed: Iterable[str]) -> list[Finding]:
    """Orgs that the configuration names and where the App is not installed."""
    named = {pool.org.lower(): pool.org for pool in settings.pools} | {org: org for org in settings.org_policies}
    there = {org.lower() for org in installed}
    fix = "install the App there, or mend the name: a renamed organization needs its new one"
    return [
        wrong("installations", "installed", "the configuration names it, and the App is not installed there", fix, org)
        for login, org in sorted(named.items())
        if login not in there
    ]


def of_url(org: str, pool: str, url: str, problem: str | None) -> Finding:
    """Whether a pool's controller can be reached."""
    name = f"controller of {pool}"
    if problem is None:
        return ok("controllers", name, url, org)
    return wrong("controllers", name, f"{url}: {problem}", "start it, or mend the pool's url", org)


def _holds(permissions: Mapping[str, str], name: str, level: str) -> bool:
    held = permissions.get(name)
    return held in LEVELS and LEVELS.index(held) >= LEVELS.index(level)
