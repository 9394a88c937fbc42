"""A person lets remediation go on: recorded under his name, told, and followed by a look."""

from __future__ import annotations

from math import inf

from ghapp.health.decision import Situation, by_pool, counts_for
from ghapp.health.installation import Installation
from ghapp.store.fuses import Resumption
from ghapp.work import ask_for_sweep
from jobs.house import House
from jobs.report import ask_for_report
from jobs.tell import tell_turns


async def resume_installation(house: House, installation: Installation, by: str, until: float = inf) -> Resumption:
    """End the pauses of an org that were made by `until` (epoch seconds), and let fuses stopped by then prove anew.

    What is lost is looked at once more before it is acted on: a sweep comes first.
    """
    now, policy = house.clock(), house.settings.of(installation.org)
    done = await house.fuses.resume(installation, None, by, now, policy.fuse, until)
    runners, survey = await house.runners.all(installation.id), await house.runners.survey(installation.id)
    rules = house.settings.pools_of(installation.org)
    pools = by_pool(runners.values(), survey, rules, now, policy.evidence)
    counts = counts_for(pools, done.proving, rules, policy.fuse, Situation(survey, now))
    await tell_turns(house, installation, done.proving, counts, now)
    ask_for_sweep(house.desk, installation.id)
    ask_for_report(house, installation)
    return done
