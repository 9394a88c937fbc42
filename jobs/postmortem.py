"""Make a death whole: join it to its job, ask what surrounded it, tell of it, and say so to the job's developer.

One death is looked into several times: GitHub says ten minutes late that a lost job failed, and a host's lines come
after the end that they surround. Every look may be repeated: the record only grows, the event is told once under its
own id, and the check run is created once and updated.
"""

from __future__ import annotations

from ghapp.errors import (
    GhappError,
    GitHubError,
    GitHubUnavailableError,
    LogStoreUnavailableError,
    PermissionMissingError,
)
from ghapp.health.cluster.hindrance import LOG_STORE
from ghapp.health.deaths.cause import Cause
from ghapp.health.deaths.death import Death
from ghapp.health.deaths.postmortem import (
    JobFacts,
    is_surrounded,
    next_look_after,
    wants_lines,
)
from ghapp.health.installation import Installation
from ghapp.log import logger
from ghapp.loki import LogStoreAwayError
from ghapp.store.claims import OUTLIVING_SECONDS
from ghapp.store.deaths import Deaths, identity
from ghapp.store.postmortems import PostMortems
from ghapp.store.troubles import Troubles
from ghapp.work import Work
from jobs.deaths.posting import Outcome, post
from jobs.deaths.surroundings import facts_of, with_facts, with_host_lines, with_job, with_runner_lines
from jobs.house import House, furnished, open_house
from jobs.tell import death_id, tell_death

log = logger(__name__)

COMPLETE_AT_LOOK = 1
"""That one finds all that surrounded an end. Those after it wait for GitHub, and ask for lines if there are none."""


async def post_mortem(installation_id: int, death_id: str, look: int = 0) -> None:
    """The job: look into one death, and ask for the next look while there is something to wait for."""
    async with open_house(furnished()) as house:
        await look_into(house, installation_id, death_id, look)


async def look_into(house: House, installation_id: int, which: str, look: int = 0) -> Outcome:
    """One look: what it finds is recorded and told at once; only the check run waits for the job's conclusion.

    Args:
        house: the stores and GitHub.
        installation_id: whose runner it was.
        which: the death's `store.deaths.identity`; a later end of the same pod, or of its name, is another one.
        look: how many came before.

    Raises:
        GitHubUnavailableError: after all the rest is done; the queue tries this look again.
    """
    async with house.claims.hold("post-mortem", f"{installation_id}:{which}", OUTLIVING_SECONDS) as is_mine:
        installation = await house.installations.one(installation_id)
        known = await Deaths(house.redis, house.clock).one(installation_id, which)
        if not is_mine or installation is None or known is None:
            return Outcome.NOTHING_TO_DO
        return await _look(house, installation, known, look)


async def _look(house: House, installation: Installation, death: Death, look: int) -> Outcome:
    deaths = Deaths(house.redis, house.clock)
    death, lacks_lines = await _with_lines(house, installation, await with_job(house, installation, death), look)
    facts: JobFacts | None = None
    trouble: GitHubError | None = None
    outcome = Outcome.RECORDED
    try:
        facts = await facts_of(house, installation, death)
    except GitHubError as error:
        trouble = error
    if facts is not None:
        death = with_facts(death, facts)
    await deaths.enrich(installation.id, death)
    await tell_death(house, installation, death, house.clock())
    await deaths.told(installation.id, death)
    try:
        if facts is not None and facts.over:
            outcome = await post(house, installation, death, facts)
    except GitHubError as error:
        trouble = error
    if trouble is not None:
        await _say_once(house, installation, trouble)
    if isinstance(trouble, GitHubUnavailableError):
        raise trouble
    if (lacks_lines or _is_open(house, death, facts, trouble)) and _ask_for_next(house, installation, death, look):
        return Outcome.WAITS if outcome is Outcome.RECORDED else outcome
    return outcome


async def _with_lines(house: House, installation: Installation, death: Death, look: int) -> tuple[Death, bool]:
    """With what was logged around it; and whether the log store may have more and would not tell it."""
    if look > COMPLETE_AT_LOOK and death.host_log:
        return death, False
    post_mortems, troubles, lacks = PostMortems(house.redis), Troubles(house.redis), False
    for with_more in (with_runner_lines, with_host_lines):
        if await post_mortems.log_store_rests():
            return death, house.settings.loki_url is not None and wants_lines(death)
        try:
            death = await with_more(house, death)
        except LogStoreAwayError as error:
            lacks = True
            await post_mortems.let_log_store_rest()
            await troubles.say(LOG_STORE, "it gives no answer; `ghapp doctor` says why")
            await _say_once(house, installation, error)
        except LogStoreUnavailableError as error:
            lacks = True
            await troubles.say(LOG_STORE, "it does not take our questions; `ghapp doctor` says why")
            await _say_once(house, installation, error)
    return death, lacks


async def _say_once(house: House, installation: Installation, error: GhappError) -> None:
    """Once a day for each kind of trouble: after an outage there are many deaths, and all have the same."""
    lacking = error.accepted if isinstance(error, PermissionMissingError) else ""
    if await PostMortems(house.redis).is_unsaid(installation.id, f"{type(error).__name__}:{lacking}"):
        log.warning("post-mortem lacks something", installation=installation.id, org=installation.org, why=str(error))


def _is_open(house: House, death: Death, facts: JobFacts | None, trouble: GitHubError | None) -> bool:
    """Whether a later look could find more."""
    if house.settings.loki_url is not None and wants_lines(death) and not is_surrounded(death, house.clock()):
        return True
    if death.cause is Cause.CLEAN_EXIT or isinstance(trouble, PermissionMissingError):
        return False
    return facts is None or not facts.over or trouble is not None


def _ask_for_next(house: House, installation: Installation, death: Death, look: int) -> bool:
    """False when this was the last."""
    after = next_look_after(look)
    if after is None:
        return False
    key = f"post-mortem-{death_id(installation, death)}-{look + 1}"
    args = (installation.id, identity(death), look + 1)
    house.ask(Work.POST_MORTEM, *args, key=key, after_seconds=after)
    return True
