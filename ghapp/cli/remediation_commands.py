"""Pauses and resumes remediation in Redis, for `ghapp pause` and `ghapp resume`."""

from __future__ import annotations

from ghapp.cli.audit import change, user_here
from ghapp.cli.context import UnknownPoolError, chosen, no_such_pool
from ghapp.errors import ConfigurationError
from ghapp.installations.installation import Installation
from ghapp.remediation.fuse import Position, resume_command
from ghapp.remediation.store import WHOLE_ORG, Pause, PauseResult
from ghapp.report.documents import pause_in_words, timestamp
from ghapp.settings import Settings
from ghapp.store.stores import Stores
from ghapp.store.views import load_org_view


async def pause(
    settings: Settings, stores: Stores, org: str, pool: str | None, why: str | None, seconds: float | None
) -> list[str]:
    """Pauses, for a number of seconds or until a person resumes, or changes the pause that is running.

    Returns:
        Lines with the pause that is in effect.

    Raises:
        UnknownPoolError: there is no such pool; a mistyped name would stop nothing.
        ConfigurationError: no pause is running, and there is no reason for a new one.
    """
    (installation,) = await chosen(stores.installations, org)
    await _require_pool(settings, stores, installation, pool)
    now = await stores.now()
    asked = Pause(user_here(), why or "", now, None if seconds is None else now + seconds)
    async with change(stores, installation.id, "pause", pool or WHOLE_ORG, asked.why) as outcome:
        pause, result = done = await stores.fuses.pause(installation.id, pool or WHOLE_ORG, asked)
        outcome.set(result, has_effect=done.has_effect)
    subject, end = pause_words(installation.org, pool)
    if result is PauseResult.NEEDS_REASON:
        raise ConfigurationError(f"--why: no pause of {subject} is running that could be changed; it takes a reason")
    if result is PauseResult.PAUSED:
        return [f"paused: {subject}, until {end if pause.until is None else f'{timestamp(pause.until)} or {end}'}"]
    in_words = f"{subject}, {pause_in_words(pause)}"
    if done.has_effect:
        return [f"pause {result}: {in_words}", f"{end} ends it"]
    return [
        f"already paused: {in_words}",
        f"that pause stays in effect; others can only put off its end; {end} ends it",
    ]


def pause_words(org: str, pool: str | None) -> tuple[str, str]:
    """Returns what a pause of this pool (None: all of the org) concerns, and the command that ends it."""
    return _named(org, pool or WHOLE_ORG), f"`{resume_command(org, pool)}`"


async def _require_pool(settings: Settings, stores: Stores, installation: Installation, pool: str | None) -> None:
    """Raises UnknownPoolError if the organization has no pool of that name; `*` stands for all pools."""
    if pool is None or pool == WHOLE_ORG or pool in (known := await known_pools(settings, stores, installation)):
        return
    raise UnknownPoolError(no_such_pool(installation.org, pool, known))


async def known_pools(settings: Settings, stores: Stores, installation: Installation) -> set[str]:
    """Returns the configured pools, those of known runners, and those with a fuse or a pause."""
    view = await load_org_view(stores, installation, settings)
    runners = (await stores.runners.all(installation.id)).values()
    return view.pools(runners) - {WHOLE_ORG}


async def resume(settings: Settings, stores: Stores, org: str, pool: str | None) -> list[str]:
    """Resumes, makes a sweep due, and returns lines with the result for each pool and what is still paused or stopped.

    Raises:
        UnknownPoolError: there is no such pool; a mistyped name would resume nothing.
    """
    (installation,) = await chosen(stores.installations, org)
    await _require_pool(settings, stores, installation, pool)
    fuses, name = stores.fuses, installation.org
    limits = settings.of(name).fuse
    async with change(stores, installation.id, "resume", pool or WHOLE_ORG) as outcome:
        done = await fuses.resume(installation, pool, user_here(), await stores.now(), limits)
        outcome.set("resumed" if done else "nothing-to-resume", has_effect=bool(done))
    org_pause = (await fuses.pauses(installation.id)).get(WHOLE_ORG)
    whole = (await fuses.all(installation.id)).get(WHOLE_ORG)
    if done:
        await stores.schedule.due_at(installation.id, await stores.now())
    output = [
        f"resumed: {_named(name, each)}, paused by {pause.who}: {pause.why}" for each, pause in done.ended.items()
    ]
    output += [f"fuse restarted, now proving: {_named(name, each, 'the whole installation')}" for each in done.proving]
    output += [
        f"reaper restarted, now proving: {_named(name, each, 'the whole installation')}" for each in done.reaping
    ]
    if org_pause is not None:
        output.append(f"still paused: {name}, by {org_pause.who}: {org_pause.why}")
    if whole is not None and whole.position is Position.STOPPED:
        output.append(f"still stopped: the fuse of the whole installation ({whole.reason}); `{resume_command(name)}`")
    return output or ["nothing was paused or stopped"]


def _named(org: str, pool: str, whole: str = "") -> str:
    """Returns `org/pool`; for the whole organization its name, with the suffix `whole` where that is ambiguous."""
    if pool != WHOLE_ORG:
        return f"{org}/{pool}"
    return f"{org}, {whole}" if whole else org
