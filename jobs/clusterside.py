"""Look at an org's cluster side: what does not fit together, how runners died in the last day, and what was reaped."""

from __future__ import annotations

from ghapp.health.cluster.clusterside import ClusterSide, Unseen, bridged, folded, namespaces_of, unread_since, unseen
from ghapp.health.cluster.hindrance import Hindrance, places_of
from ghapp.health.cluster.mismatch import mismatches, placed
from ghapp.health.demand import is_fresh
from ghapp.health.installation import Installation
from ghapp.health.leaks.standing import DAY_SECONDS, LeakStanding, standing
from ghapp.store.clusterside import ClusterSides
from ghapp.store.deaths import Deaths
from ghapp.store.leaks import Leaks
from ghapp.store.places import Places
from ghapp.store.pods import Pods
from ghapp.store.troubles import Troubles
from jobs.house import House

EVERY_SECONDS = 15.0
"""A look that is younger will do: nothing is told before it has lasted for minutes."""

MOST_READ = 2_000
"""Deaths read by one look; clean exits are among them."""


async def look_at_cluster(house: House, installation: Installation, now: float) -> ClusterSide | None:
    """What is known of an org's cluster side as of `now`; None where no pool of it says where its pods are.

    Everything is read from what the watch and the sweeps have stored: nothing is asked of the cluster or of GitHub.
    """
    rules = house.settings.pools_of(installation.org)
    namespaces = namespaces_of(rules)
    if not namespaces:
        return None
    sides, pods = ClusterSides(house.redis), Pods(house.redis)
    before = bridged(await sides.of(installation.id), now)
    if before is not None and now - before.at < EVERY_SECONDS:
        return before
    # GitHub's side first: what came to the cluster after it is too young to be missed.
    survey = await house.runners.survey(installation.id)
    runners = (await house.runners.all(installation.id)).values()
    seen = {name: view for name in namespaces if (view := await pods.all(name)) is not None}
    limits = house.settings.of(installation.org).evidence
    await Places(house.redis).seen(installation.id, placed(runners, seen, rules), now)
    found = mismatches(installation.org, runners, survey, seen, rules, now, limits)
    deaths = Deaths(house.redis, house.clock)
    recent = await deaths.recent(installation.id, unread_since(before, now), MOST_READ)
    is_blind = len(seen) < len(namespaces) or not all(is_fresh(view.seen_at, now) for view in seen.values())
    is_blind = is_blind or survey.swept_at is None or now - survey.swept_at > limits.stale_seconds
    side = folded(before, found, recent, now, is_blind=is_blind)
    await sides.keep(installation.id, side)
    return side


async def not_seen(house: House, installation: Installation, now: float) -> list[Unseen]:
    """The namespaces of an org's pools that nobody sees just now."""
    names, pods = namespaces_of(house.settings.pools_of(installation.org)), Pods(house.redis)
    return unseen({name: await pods.seen_at(name) for name in names}, now)


async def in_the_way(house: House, installation: Installation) -> list[Hindrance]:
    """What keeps the cluster side of an org's pools from being seen, and why."""
    names = namespaces_of(house.settings.pools_of(installation.org))
    places = places_of(names, has_log_store=bool(names) and house.settings.loki_url is not None)
    return [Hindrance(*each) for each in (await Troubles(house.redis).of(places)).items()]


async def leaks_of(house: House, installation: Installation, now: float) -> LeakStanding:
    """What its reaper of stamped pods did, and what waits, as it has told itself."""
    store = Leaks(house.redis)
    last, reaped = await store.last(installation.id), await store.reaped_since(installation.id, now - DAY_SECONDS)
    return standing(
        last.at,
        last.trouble_since,
        now,
        reaped=reaped,
        deferred=last.deferred,
        told=last.told,
        strangers=last.strangers,
        held=last.held,
        kept=last.kept,
        examples=last.examples,
    )
