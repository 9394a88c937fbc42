"""A `ghapp.toml` to begin with: one pool for each set of custom labels that runners have. Pure."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ghapp.installations.pool_matching import SHARD_LABEL, pool_labels, pool_of
from ghapp.runners.evidence import Evidence
from ghapp.untrusted_text import toml_string
from ghapp.wording import DOCS, counted
from ghapp.workflow_jobs.labels import names_one_run

MOST_POOLS = 100
"""Maximum suggested for one organization, those with the most runners."""

_FORBIDDEN = re.compile(r"[/*\x00-\x1f\x7f]")
"""Characters that the name of a pool must not have."""

HEADER = f"""\
# ghapp.toml, named by GHAPP_CONFIG. Suggested by `ghapp init` from the labels of the runners that it knows.
# Every key: {DOCS}/configuration.md. Unknown keys are refused at start.
#
# On each runner, pod or machine, set two variables, so that its log and the cause of its end can be read:
#   ACTIONS_RUNNER_PRINT_LOG_TO_STDOUT=1
#   ACTIONS_RUNNER_RETURN_VERSION_DEPRECATED_EXIT_CODE=1
# What they cost, and how to turn them back: {DOCS}/controllers.md.

[remediation]
mode = "dry-run"            # records what it would do and does nothing; "act" once its reports are right

[leaks]
mode = "dry-run"            # the same for pods that belong to no runner

# [report]
# repository = "ORG/.github"  # where the check run "Runner health" is posted
"""

REPLACER = """\
replacer = "none"           # its controller asks ghapp; or cloudevents (url, secret_env), arc or pods (namespace)
"""

ARC_NAME = re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5}-runner-[bcdfghjklmnpqrstvwxz2456789]{5}$")
"""The end of a runner's name that ARC made: two suffixes of Kubernetes' alphabet. It is the name of the pod, too."""

OF_ARC = f"""\
# Their names are ARC's: set replacer = "arc", the namespace of its pods, and runner_name = "pod":
# {DOCS}/kubernetes-reference.md
"""

EPHEMERAL = f"""\
# runner_name = "pod"       # if each runner has its pod's name: {DOCS}/kubernetes-reference.md
"""

REPLACERS = {
    "arc": 'replacer = "arc"            # ghapp deletes the EphemeralRunner of a lost runner, and ARC makes another',
    "pods": 'replacer = "pods"           # ghapp deletes the pod of a lost runner, and its controller makes another',
}
"""The replacers of runners in pods, and what they do."""

EXAMPLE = """
# No runner with a label of its own is known yet: wait for the first sweep, or run `ghapp sweep`.
# A pool looks like this:
# [[pools]]
# org = "ORG"
# name = "linux-4vcpu"
# labels = ["linux-4vcpu"]
# replacer = "none"
"""


class WatchedPod(NamedTuple):
    """The pod of a runner's name, as the cluster shows it. `replacer`: `arc` for an EphemeralRunner, else `pods`."""

    namespace: str
    replacer: str


NO_PODS: Mapping[str, WatchedPod] = {}


class SuggestedPool(NamedTuple):
    """A pool for one set of labels.

    Attributes:
        org: its organization.
        labels: custom labels in lower case, sorted, without those of shards; one or more.
        runners: the number of current runners with just these labels.
        is_sharded: True if some of them have a label like `shard:pink`.
        name: as of a pool that is named by these labels, without characters that the name of a pool must not have.
        is_arc: True if ARC named all of them.
        is_ephemeral: True if GitHub lists all of them as ephemeral.
        pod: of its runners; None unless more than half of them have such a pod.
    """

    org: str
    labels: tuple[str, ...]
    runners: int
    is_sharded: bool
    name: str
    is_arc: bool = False
    is_ephemeral: bool = False
    pod: WatchedPod | None = None


def suggested_pools(
    org: str, runners: Iterable[Evidence], pods: Mapping[str, WatchedPod] = NO_PODS
) -> list[SuggestedPool]:
    """Returns a pool for each set of labels; those with more labels first, because the first pool that matches counts.

    Runners without a custom label suggest no pool, and a label that has a run's id is of that run alone. `pods`: known
    ones by the names of their runners.
    """
    counts: Counter[tuple[str, ...]] = Counter()
    places: dict[tuple[str, ...], Counter[WatchedPod]] = defaultdict(Counter)
    sharded, not_arc, not_ephemeral = set(), set(), set()
    for each in runners:
        given = sorted({label.lower() for label in each.custom_labels if not names_one_run(label)})
        labels = tuple(pool_labels(given))
        if not labels:
            continue
        counts[labels] += 1
        if (pod := pods.get(each.name)) is not None:
            places[labels][pod] += 1
        if not (each.ephemeral and ARC_NAME.search(each.name)):
            not_arc.add(labels)
        if not each.ephemeral:
            not_ephemeral.add(labels)
        if len(labels) < len(given):
            sharded.add(labels)
    found: dict[str, SuggestedPool] = {}
    for labels, count in counts.most_common(MOST_POOLS):
        name = base = _FORBIDDEN.sub("-", pool_of((), labels, ()))
        while name in found:
            name = f"{base}-{len(found)}"
        kinds = (labels not in not_arc, labels not in not_ephemeral)
        place = next((pod for pod, known in places[labels].items() if 2 * known > count), None)
        found[name] = SuggestedPool(org, labels, count, labels in sharded, name, *kinds, place)
    return sorted(found.values(), key=lambda pool: (-len(pool.labels), pool.labels))


def suggested_config(fleets: Mapping[str, Iterable[Evidence]], pods: Mapping[str, WatchedPod] = NO_PODS) -> str:
    """Returns the text of a configuration in dry-run that the settings accept.

    Args:
        fleets: the present runners by organization.
        pods: by the names of their runners, as far as the cluster is seen.
    """
    pools = [pool for org in sorted(fleets) for pool in suggested_pools(org, fleets[org], pods)]
    orgs = [org for org in fleets if "/" not in org]
    header = HEADER.replace("ORG/", f"{orgs[0]}/") if len(orgs) == 1 else HEADER
    return header + ("".join(_pool(each, sees_cluster=bool(pods)) for each in pools) or EXAMPLE)


def _pool(pool: SuggestedPool, *, sees_cluster: bool) -> str:
    shards = f'shard_label = "{SHARD_LABEL}"      # a label like {SHARD_LABEL}:pink puts a runner on that shard\n'
    return (
        f"\n[[pools]]                   # {counted(pool.runners, 'runner')}\n"
        f"org = {toml_string(pool.org)}\n"
        f"name = {toml_string(pool.name)}\n"
        f"labels = [{', '.join(map(toml_string, pool.labels))}]\n"
        f"{_replacer(pool, sees_cluster=sees_cluster)}"
        f"{shards if pool.is_sharded else ''}"
    )


def _replacer(pool: SuggestedPool, *, sees_cluster: bool) -> str:
    """Returns how lost runners are replaced. Machines without pods beside those of a cluster are no pods' runners."""
    if pool.pod is not None:
        return (
            f"{REPLACERS[pool.pod.replacer]}\n"
            f"namespace = {toml_string(pool.pod.namespace)}\n"
            'runner_name = "pod"         # each runner has its pod\'s name\n'
        )
    hint = OF_ARC if pool.is_arc else EPHEMERAL if pool.is_ephemeral and not sees_cluster else ""
    return REPLACER + hint
