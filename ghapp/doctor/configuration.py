"""Checks the configuration file, the credentials and the pools, without any request; each mistake has its line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ghapp.doctor.finding import Finding, ok, warning, wrong
from ghapp.errors import ConfigurationError
from ghapp.settings import PoolSettings, Settings
from ghapp.state_directory import find_problem
from ghapp.wording import DOCS

GROUP = "configuration"

CORRECT_IT = f"correct it; {DOCS}/configuration.md has what each setting takes"


def of_configuration(settings: Settings, environ: Mapping[str, str], *, has_workers: bool = False) -> list[Finding]:
    """Returns what is configured, and what the configuration disables; `has_workers`: workers are alive somewhere."""
    file = environ.get("GHAPP_CONFIG")
    found = [
        ok(GROUP, "file", file or "none: all settings have their defaults"),
        *_of_credentials(settings, environ, has_workers=has_workers),
    ]
    found.append(ok(GROUP, "page", _page(settings)))
    if settings.state_dir.is_dir():
        found.append(_of_state_directory(settings.state_dir))
    modes: list[tuple[str | None, str]] = [(None, settings.policy.remediation.mode)]
    modes += [(org, policy.remediation.mode) for org, policy in settings.org_policies.items()]
    for org, mode in modes:
        if mode != "act":
            text = f"remediation is {mode}: nothing is removed or replaced"
            found.append(
                warning(GROUP, "mode", text, 'set [remediation] mode = "act" when you trust its decisions', org)
            )
    if not settings.pools:
        fix = "add [[pools]] with a replacer; without a replacer, controllers must poll the API"
        found.append(warning(GROUP, "pools", "no pool is configured", fix))
    return found + [_of_pool(pool) for pool in settings.pools]


def _of_state_directory(path: Path) -> Finding:
    """Judges GHAPP_STATE_DIR, which exists where `ghapp up` has run."""
    if (problem := find_problem(path)) is None:
        return ok(GROUP, "state directory", str(path))
    fix = "free some space or grant the right to write, or set GHAPP_STATE_DIR to another directory"
    return wrong(GROUP, "state directory", problem, fix)


def _page(settings: Settings) -> str:
    if settings.public_url is None:
        return "optional: with GHAPP_PUBLIC_URL, check runs and notifications link to the page"
    return f"{settings.public_url.rstrip('/')}/; check runs and notifications link to it"


def _of_credentials(settings: Settings, environ: Mapping[str, str], *, has_workers: bool) -> list[Finding]:
    credentials = settings.credentials
    if credentials is None and has_workers:
        return [ok(GROUP, "credentials", "none here, and GitHub is not checked; the live workers have the App's")]
    if credentials is None:
        by_hand = "or set GHAPP_APP_ID, GHAPP_PRIVATE_KEY and GHAPP_WEBHOOK_SECRET"
        fix = f"run `ghapp up` and open /setup, {by_hand}"
        if settings.redis_url is not None and "GHAPP_REDIS_URL" not in environ:  # the local one of `ghapp up`
            fix = f"create the App at the address that the running `ghapp up` shows, {by_hand}"
        return [wrong(GROUP, "credentials", "no App credentials are configured", fix)]
    where = "the environment" if environ.get("GHAPP_APP_ID") else f"/setup, kept in {settings.state_dir}"
    found = [ok(GROUP, "credentials", f"App {credentials.app_id}, from {where}")]
    if not credentials.webhook_secrets:
        fix = "set a webhook secret in the App's settings on GitHub, and the same as GHAPP_WEBHOOK_SECRET"
        found.append(wrong(GROUP, "webhook secret", "no webhook secret is set: every delivery is rejected", fix))
    return found


def _of_pool(pool: PoolSettings) -> Finding:
    name = f"pool {pool.name}"
    if pool.replacer == "none":
        fix = 'set replacer = "cloudevents", unless its controller polls GET /v1/orgs/…/runners'
        return warning(GROUP, name, "replacer is none: no replacement is requested for its runners", fix, pool.org)
    return ok(GROUP, name, f"replaced by {pool.replacer}", pool.org)


def of_mistakes(error: ConfigurationError) -> list[Finding]:
    """Returns a finding for each mistake, in the order of reading; nothing else can be checked with them."""
    found = [_of(mistake) for mistake in error.mistakes]
    text = "not checked: Redis, roles, GitHub, the cluster and the rest follow once the configuration is right"
    return [*found, warning(GROUP, "all else", text, "correct the mistakes above, then run `ghapp doctor` again")]


def _of(mistake: str) -> Finding:
    place, colon, rest = mistake.partition(": ")
    if not colon:
        return wrong(GROUP, "mistakes", mistake, CORRECT_IT)
    what, semicolon, right = rest.partition("; ")
    return wrong(GROUP, place, what, right if semicolon else CORRECT_IT)
