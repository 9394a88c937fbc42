"""Reads the fleet from Redis for `ghapp runners` and `ghapp explain`."""

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

CLOCK_SKEW_SECONDS = 60.0
"""Tolerance between the cluster's clock and GitHub's."""


class FleetDocuments(NamedTuple):
    """Documents of runners and phantoms, namespaces without a current snapshot, and pauses and fuses that block."""

    runners: list[dict[str, Any]]
    phantoms: list[dict[str, Any]]
    unseen: list[StaleNamespace]
    held: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class OrgDocuments:
    """The data from which an org's documents are built."""

    name: str
    rules: Sequence[PoolSettings]
    limits: Limits
    survey: Survey
    fuses: Mapping[str, Fuse]
    pauses: Mapping[str, Any]
    claimed: Mapping[str, PodClaim]

    def document(self, evidence: Evidence, now: float) -> dict[str, Any]:
        """Returns the health document of one runner at `now`."""
        from ghapp.health.pods.pod_claim import claim_on
        from ghapp.health.pool_matching import pool_of
        from ghapp.health.remediation.fuse import fuse_of
        from ghapp.health.runner.verdict import judge
        from ghapp.report.documents import PoolBrakes, health_document
        from ghapp.store.fuses import WHOLE_ORG

        pool = pool_of(evidence.labels, evidence.custom_labels, self.rules)
        paused = WHOLE_ORG in self.pauses or pool in self.pauses
        brakes = PoolBrakes(fuse_of(self.fuses, pool).position, paused)
        verdict = judge(evidence, self.survey, now, self.limits)
        claim = claim_on(self.claimed, evidence.name, now)
        return health_document(self.name, evidence, verdict, self.survey, brakes, self.rules, now, claim)

    def held(self) -> list[dict[str, Any]]:
        """Returns the pauses and the fuses that are not closed, those of the whole organization first."""
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
    """Returns the documents of all known runners of an org, or of all orgs.

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
            documents = await _org(settings, redis, installation)
            held += documents.held()
            known = (await Runners(redis).all(installation.id)).values()
            runners += [documents.document(each, now) for each in known]
            phantoms += await _phantoms(redis, installation)
        names = sorted(
            {rule.namespace for each in installations for rule in settings.pools_of(each.org) if rule.namespace}
        )
        stale = stale_namespaces({name: await Pods(redis).seen_at(name) for name in names}, now)
    runners.sort(key=lambda each: (each["org"], each["pool"], each["name"]))
    return FleetDocuments(runners, phantoms, stale, held)


async def runner_document(settings: Settings, org: str, name_or_id: str) -> dict[str, Any]:
    """Returns the document of one runner, by name or id, with its death; of an unknown name only its death.

    Raises:
        UnknownOrgError: the App is not installed there.
        GhappError: neither a runner nor a death of that name is known.
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
        documents = await _org(settings, redis, installation)
        if evidence is not None:
            document = documents.document(evidence, time.time())
            died = died if died is not None and is_of(died, evidence) else None
        elif died is not None:
            document = never_seen(installation.org, died.runner_id, name_or_id)
        else:
            raise GhappError(f"{org} {name_or_id}: unknown runner; see `ghapp runners --org {org}`")
    held = [each for each in documents.held() if each["pool"] in (None, document["pool"])]
    return {**document, "held": held, "death": None if died is None else death_document(died)}


def is_of(death: Death, evidence: Evidence) -> bool:
    """True if this runner died, and not an earlier runner of the same name."""
    if death.runner_id is not None:
        return death.runner_id == evidence.id
    return death.at >= evidence.first_seen - CLOCK_SKEW_SECONDS


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
    """Returns the phantoms of the last snapshot, as documents."""
    from ghapp.health.cluster_summary import phantom_since
    from ghapp.report.documents import timestamp
    from ghapp.store.cluster_summaries import ClusterSummaries

    summary = await ClusterSummaries(redis).of(installation.id)
    if summary is None:
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
            "since": timestamp(phantom_since(summary, each)),
            "advice": each.advice,
        }
        for each in summary.phantoms
    ]
