"""The file, the credentials, the pools: what needs no asking."""

from __future__ import annotations

from collections.abc import Mapping

from ghapp.doctor.finding import Finding, ok, warning, wrong
from ghapp.settings import PoolSettings, Settings

GROUP = "configuration"


def of_configuration(settings: Settings, environ: Mapping[str, str]) -> list[Finding]:
    """What it says, and what it keeps us from."""
    file = environ.get("GHAPP_CONFIG")
    found = [ok(GROUP, "file", file or "none: every default holds"), *_of_credentials(settings, environ)]
    modes: list[tuple[str | None, str]] = [(None, settings.policy.remediation.mode)]
    modes += [(org, policy.remediation.mode) for org, policy in settings.org_policies.items()]
    for org, mode in modes:
        if mode != "act":
            said = f"remediation is {mode}: nothing is removed or replaced"
            found.append(warning(GROUP, "mode", said, 'set [remediation] mode = "act" when you trust it', org))
    if not settings.pools:
        fix = "name them in [[pools]], with a replacer; without one controllers must pull"
        found.append(warning(GROUP, "pools", "no pool is configured", fix))
    return found + [_of_pool(pool) for pool in settings.pools]


def _of_credentials(settings: Settings, environ: Mapping[str, str]) -> list[Finding]:
    credentials = settings.credentials
    if credentials is None:
        fix = "run `ghapp up` and open /setup, or set GHAPP_APP_ID, GHAPP_PRIVATE_KEY and GHAPP_WEBHOOK_SECRET"
        return [wrong(GROUP, "credentials", "there is no App", fix)]
    where = "the environment" if environ.get("GHAPP_APP_ID") else f"/setup, kept in {settings.state_dir}"
    found = [ok(GROUP, "credentials", f"App {credentials.app_id}, from {where}")]
    if not credentials.webhook_secrets:
        fix = "set a webhook secret in the App's settings on GitHub, and give it as GHAPP_WEBHOOK_SECRET"
        found.append(wrong(GROUP, "webhook secret", "there is none: every delivery is refused", fix))
    return found


def _of_pool(pool: PoolSettings) -> Finding:
    name = f"pool {pool.name}"
    if pool.replacer == "none":
        fix = 'give it replacer = "cloudevents", unless its controller asks us by GET /v1/orgs/…/runners'
        return warning(GROUP, name, "we ask nobody to replace its runners", fix, pool.org)
    return ok(GROUP, name, f"replaced by {pool.replacer}", pool.org)
