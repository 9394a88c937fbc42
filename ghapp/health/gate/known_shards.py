"""Which shards of a pool are known at all, and which of them a name that nobody knows may have meant. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from ghapp.health.gate.active_shard import ActiveShardAnswer, Deploy
from ghapp.health.gate.shard_status import ShardInputs, members_of
from ghapp.health.shards import shard_of

MOST_NAMED = 5


def known_shards(known: ShardInputs, deploys: Iterable[Deploy], answer: ActiveShardAnswer | None) -> set[str]:
    """Every shard that a runner bears, a deploy was reported of, or the configuration names; in lower case."""
    borne = (shard_of(each, known.rule) for each in members_of(known))
    named = [*known.rule.shard_groups, *(each.shard for each in deploys), "" if answer is None else answer.shard]
    return {shard.lower() for shard in (*borne, *named) if shard}


def unknown_shard(shard: str, known: ShardInputs, deploys: Iterable[Deploy], answer: ActiveShardAnswer | None) -> str:
    """Why a shard is none that anybody knows, with the names that may be meant; empty for a known one.

    Before the first complete list nobody knows any: then nothing is said.
    """
    there = known_shards(known, deploys, answer)
    if known.survey.swept_at is None or shard.lower() in there:
        return ""
    near = get_close_matches(shard.lower(), sorted(there), n=1, cutoff=0.5)
    meant = f"did you mean {near[0]}? " if near else ""
    names = ", ".join(sorted(there)[:MOST_NAMED]) or "none"
    return f"{known.rule.name} has no shard {shard}: {meant}known are {names}; one that is to be new takes --expect-new"
