"""What is known of the fleet, read from Redis for the commands that show it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ghapp.cli.context import chosen, opened
from ghapp.errors import GhappError
from ghapp.settings import PoolSettings, Settings

if TYPE_CHECKING:
    from ghapp.health.cluster_summary import StaleNamespace
    from ghapp.health.deaths.death import Death
    from ghapp.health.installation import Installation
    from ghapp.health.pods.pod_claim import PodClaim
    from ghapp.health.remediation.fuse import Fuse
    from ghapp.health.runner.evidence import Evidence, Survey
    from ghapp.health.runner.verdict import Limits

APART_SECONDS = 60.0
"""The cluster's clock is not GitHub's."""


class FleetDocuments(NamedTuple):
    """Documents of runners and of phantoms, the namespaces that nobody sees, and what holds replacements back."""

    runners: list[dict[str, Any]]
    phantoms: list[dict[str, Any]]
    unseen: list[StaleNamespace]
    held: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class OrgDocuments:
    """What an org's documents are made of."""

    name: str
    rules: Sequence[PoolSettings]
    limits: Limits
    survey: Survey
    fuses: Mapping[str, Fuse]
    pauses: Mapping[str, Any]
    claimed: Mapping[str, PodClaim]

    def document(self, evidence: Evidence, now: float) -> dict[str, Any]:
        """What is true of one runner at `now`."""
        from ghapp.health.pods.pod_claim import claim_on
        from ghapp.health.pool_matching import pool_of
        from ghapp.health.remediation.fuse import fuse_of
        from ghapp.health.runner.verdict import judge
        from ghapp.report.documents import PoolBrakes, health_document
        from ghapp.store.fuses import WHOLE_ORG

        pool = pool_of(evidence.labels, evidence.custom_labels, self.rules)
        paused = WHOLE_ORG in self.pauses or pool in self.pauses
        standing = PoolBrakes(fuse_of(self.fuses, pool).position, paused)
        verdict = judge(evidence, self.survey, now, self.limits)
        claim = claim_on(self.claimed, evidence.name, now)
        return health_document(self.name, evidence, verdict, self.survey, standing, self.rules, now, claim)

    def held(self) -> list[dict[str, Any]]:
        """What holds replacements back, the whole organization's first: its pauses, and fuses that are not closed."""
        from ghapp.health.remediation.fuse import Position
        from ghapp.report import fuse_history
        from ghapp.report.documents import timestamp
        from ghapp.store.fuses import WHOLE_ORG

        found = [
            {"pool": pool, "kind": "pause", "said": f"by {each.who} since {timestamp(each.at)}: {each.why}"}
            for pool, each in self.pauses.items()
        ]
        found += [
            {"pool": pool, "kind": f"fuse {each.position}", "said": fuse_history(each, str)}
            for pool, each in self.fuses.items()
            if each.position is not Position.CLOSED
        ]
        found.sort(key=lambda each: (each["pool"] != WHOLE_ORG, each["pool"]))
        return [
            {"org": self.name, **each, "pool": None if each["pool"] == WHOLE_ORG else each["pool"]} for each in found
        ]


async def fleet_documents(settings: Settings, org: str | None) -> FleetDocuments:
    """Everyone that is known in an org, or in all of them.

    Raises:
        UnknownOrgError: the App is not installed there.
    """
    from ghapp.health.cluster_summary import stale_namespaces
    from ghapp.store.installations import Installations
    from ghapp.store.pods import Pods
    from ghapp.store.runners import Runners

    runners: list[dict[str, Any]] = []
    phantoms: list[dict[str, Any]] = []
    now = time.time()
    held: list[dict[str, Any]] = []
    async with opened(settings) as redis:
        installations = await chosen(Installations(redis, settings.named), org)
        for installation in installations:
            of = await _org(settings, redis, installation)
            held += of.held()
            known = (await Runners(redis).all(installation.id)).values()
            runners += [of.document(each, now) for each in known]
            phantoms += await _phantoms(redis, installation)
        names = sorted(
            {rule.namespace for each in installations for rule in settings.pools_of(each.org) if rule.namespace}
        )
        blind = stale_namespaces({name: await Pods(redis).seen_at(name) for name in names}, now)
    runners.sort(key=lambda each: (each["org"], each["pool"], each["name"]))
    return FleetDocuments(runners, phantoms, blind, held)


async def runner_document(settings: Settings, org: str, name_or_id: str) -> dict[str, Any]:
    """The document of one runner, by its name or its id, with its death; of a name that died, what is left of it.

    Raises:
        UnknownOrgError: the App is not installed there.
        GhappError: nobody told us of such a runner.
    """
    from ghapp.report.documents import death_document, never_seen
    from ghapp.store.deaths import Deaths
    from ghapp.store.installations import Installations
    from ghapp.store.runners import Runners

    async with opened(settings) as redis:
        (installation,) = await chosen(Installations(redis, settings.named), org)
        known = (await Runners(redis).all(installation.id)).values()
        found = [each for each in known if each.name == name_or_id or str(each.id) == name_or_id]
        evidence = max(found, key=lambda each: each.id, default=None)
        died = await Deaths(redis).of(installation.id, evidence.name if evidence else name_or_id)
        of = await _org(settings, redis, installation)
        if evidence is not None:
            document = of.document(evidence, time.time())
            died = died if died is not None and is_of(died, evidence) else None
        elif died is not None:
            document = never_seen(installation.org, died.runner_id, name_or_id)
        else:
            raise GhappError(f"{org} {name_or_id}: unknown runner; see `ghapp runners --org {org}`")
    held = [each for each in of.held() if each["pool"] in (None, document["pool"])]
    return {**document, "held": held, "death": None if died is None else death_document(died)}


def is_of(death: Death, evidence: Evidence) -> bool:
    """Whether it is this runner that died, and not another one that bore its name before."""
    if death.runner_id is not None:
        return death.runner_id == evidence.id
    return death.at >= evidence.first_seen - APART_SECONDS


async def _org(settings: Settings, redis: Any, installation: Installation) -> OrgDocuments:
    from ghapp.health.pods.pod_claim import by_name
    from ghapp.store.fuses import Fuses
    from ghapp.store.pod_claims import PodClaims
    from ghapp.store.runners import Runners

    return OrgDocuments(
        installation.org,
        settings.pools_of(installation.org),
        settings.of(installation.org).evidence,
        await Runners(redis).survey(installation.id),
        await Fuses(redis).all(installation.id),
        await Fuses(redis).pauses(installation.id),
        by_name(await PodClaims(redis).kept(installation.id)),
    )


async def _phantoms(redis: Any, installation: Installation) -> list[dict[str, Any]]:
    """What the last looks found and lasts, as documents."""
    from ghapp.health.cluster_summary import phantom_since
    from ghapp.report.documents import timestamp
    from ghapp.store.cluster_summaries import ClusterSummaries

    side = await ClusterSummaries(redis).of(installation.id)
    if side is None:
        return []
    return [
        {
            "org": installation.org,
            "name": each.subject,
            "pool": each.pool or None,
            "namespace": each.namespace or None,
            "scale_set": each.scale_set or None,
            "kind": each.kind.value,
            "reason": each.reason.value,
            "since": timestamp(phantom_since(side, each)),
            "advice": each.advice,
        }
        for each in side.phantoms
    ]
