"""A `ghapp.toml` to begin with: one pool for each set of custom labels that runners have. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ghapp.installations.pool_matching import pool_of
from ghapp.runners.evidence import Evidence
from ghapp.untrusted_text import toml_string
from ghapp.wording import DOCS, counted
from ghapp.workflow_jobs.labels import names_one_run

SHARD_LABEL = "shard"
"""Labels like `shard:pink` are no pool's own: they become `shard_label = "shard"`."""

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

OF_ARC = """\
runner_name = "pod"         # ARC registers each runner under its pod's name
"""

EPHEMERAL = f"""\
# runner_name = "pod"       # if each runner has its pod's name: {DOCS}/kubernetes-reference.md
"""

EXAMPLE = """
# No runner with a label of its own is known yet: wait for the first sweep, or run `ghapp sweep`.
# A pool looks like this:
# [[pools]]
# org = "ORG"
# name = "linux-4vcpu"
# labels = ["linux-4vcpu"]
# replacer = "none"
"""


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
    """

    org: str
    labels: tuple[str, ...]
    runners: int
    is_sharded: bool
    name: str
    is_arc: bool = False
    is_ephemeral: bool = False


def suggested_pools(org: str, runners: Iterable[Evidence]) -> list[SuggestedPool]:
    """Returns a pool for each set of labels; those with more labels first, because the first pool that matches counts.

    Runners without a custom label suggest no pool, and a label that has a run's id is of that run alone.
    """
    counts: Counter[tuple[str, ...]] = Counter()
    sharded, not_arc, not_ephemeral = set(), set(), set()
    for each in runners:
        given = sorted({label.lower() for label in each.custom_labels if not names_one_run(label)})
        labels = tuple(label for label in given if not label.startswith(f"{SHARD_LABEL}:"))
        if not labels:
            continue
        counts[labels] += 1
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
        found[name] = SuggestedPool(org, labels, count, labels in sharded, name, *kinds)
    return sorted(found.values(), key=lambda pool: (-len(pool.labels), pool.labels))


def suggested_config(fleets: Mapping[str, Iterable[Evidence]]) -> str:
    """Returns the text of a configuration in dry-run that the settings accept; `fleets` has the present runners."""
    pools = [pool for org in sorted(fleets) for pool in suggested_pools(org, fleets[org])]
    orgs = [org for org in fleets if "/" not in org]
    header = HEADER.replace("ORG/", f"{orgs[0]}/") if len(orgs) == 1 else HEADER
    return header + ("".join(map(_pool, pools)) or EXAMPLE)


def _pool(pool: SuggestedPool) -> str:
    shards = f'shard_label = "{SHARD_LABEL}"      # a label like {SHARD_LABEL}:pink puts a runner on that shard\n'
    return (
        f"\n[[pools]]                   # {counted(pool.runners, 'runner')}\n"
        f"org = {toml_string(pool.org)}\n"
        f"name = {toml_string(pool.name)}\n"
        f"labels = [{', '.join(map(toml_string, pool.labels))}]\n"
        f"{REPLACER}{OF_ARC if pool.is_arc else EPHEMERAL if pool.is_ephemeral else ''}"
        f"{shards if pool.is_sharded else ''}"
    )
