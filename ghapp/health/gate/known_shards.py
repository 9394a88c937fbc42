"""Lists the known shards of a pool, and suggests a name for an unknown shard. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from ghapp.health.gate.active_shard import ActiveShardAnswer, Deploy
from ghapp.health.gate.shard_status import ShardInputs, members_of
from ghapp.health.shards import shard_of

MOST_NAMED = 5


def known_shards(known: ShardInputs, deploys: Iterable[Deploy], answer: ActiveShardAnswer | None) -> set[str]:
    """Returns all shards that a runner, a reported deploy or the configuration names; in lower case."""
    of_runners = (shard_of(each, known.rule) for each in members_of(known))
    named = [*known.rule.shard_groups, *(each.shard for each in deploys), "" if answer is None else answer.shard]
    return {shard.lower() for shard in (*of_runners, *named) if shard}


def unknown_shard(shard: str, known: ShardInputs, deploys: Iterable[Deploy], answer: ActiveShardAnswer | None) -> str:
    """Returns why a shard is unknown, with the names that may be meant; empty for a known shard.

    Before the first complete list no shard is known: then the result is empty.
    """
    shards = known_shards(known, deploys, answer)
    if known.survey.swept_at is None or shard.lower() in shards:
        return ""
    near = get_close_matches(shard.lower(), sorted(shards), n=1, cutoff=0.5)
    suggestion = f"did you mean {near[0]}? " if near else ""
    names = ", ".join(sorted(shards)[:MOST_NAMED]) or "no shards"
    return f"{known.rule.name} has no shard {shard}: {suggestion}known are {names}; for a new shard use --expect-new"
