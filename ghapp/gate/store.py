"""The shards of each pool: last deploys and gate checks, and the active shard by the pool's command or URL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from redis.asyncio import Redis

from ghapp.gate.active_shard import (
    ANSWER_SECONDS,
    ActiveShardAnswer,
    Deploy,
    Role,
    last_deploy,
    with_deploy,
)
from ghapp.gate.deploy_results import is_same, judged
from ghapp.gate.gate_checks import GateCheck
from ghapp.gate.judgement import ActiveShardSources, GateRequest, judge_gate
from ghapp.gate.shard_status import ShardInputs
from ghapp.store import keys
from ghapp.store.codec import Codec
from ghapp.store.compare_and_set import RecordWriter
from ghapp.store.quarantine import RecordReader

_deploys = Codec("deploys", tuple[Deploy, ...], unknown={Role: Role.UNKNOWN})
_answers = Codec("active-shard", ActiveShardAnswer)


class Shards:
    """The shards of all installations."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._read_deploys, self._read_answer = RecordReader(redis, _deploys), RecordReader(redis, _answers)
        self._deploys = RecordWriter(redis, _deploys, self._read_deploys)

    async def deploys(self, installation: int, pool: str) -> tuple[Deploy, ...]:
        """Returns the last deploy of each shard, in the order in which they were recorded."""
        row: Any = await self._redis.hget(keys.deploys(installation), pool)
        return await self._read_deploys.one(keys.deploys(installation), row, pool) or ()

    async def list_deploys(self, installation: int) -> dict[str, tuple[Deploy, ...]]:
        """Returns the last deploys of all pools that ever had one, by pool."""
        rows: Any = await self._redis.hgetall(keys.deploys(installation))
        return await self._read_deploys.many(keys.deploys(installation), {pool.decode(): rows[pool] for pool in rows})

    async def record(self, installation: int, pool: str, deploy: Callable[[Deploy | None], Deploy]) -> Deploy:
        """Records a deploy, safe against concurrent writers.

        Args:
            installation: the installation.
            pool: a configured pool; the caller must reject other names.
            deploy: returns the new record from the shard's last one; called again after a concurrent write. It
                must return the same shard each time, in lower case.

        Returns:
            The recorded deploy.
        """
        shard = deploy(None).shard

        def recorded(known: tuple[Deploy, ...] | None) -> tuple[Deploy, ...]:
            last = next((each for each in known or () if each.shard == shard), None)
            return with_deploy(known or (), deploy(last))

        revised = await self._deploys.revise([keys.deploys(installation)], {pool: recorded})
        return next(each for each in revised[pool] if each.shard == shard)

    async def record_result(
        self, installation: int, request: GateRequest, known: ShardInputs, sources: ActiveShardSources, now: float
    ) -> None:
        """Records whether the shard's last deploy passed or failed, so that failures in a row can be counted.

        Writes at most twice for each deploy, and nothing if the shard was deployed again meanwhile.

        Args:
            installation: the installation.
            request: the shard, with the pool's own `min_online` and nothing else required.
            known: the gate's inputs.
            sources: of the active shard.
            now: time of the evaluation.
        """
        deploy = last_deploy(sources.deploys, request.shard.lower())
        if deploy is None or deploy.passed_at is not None:
            return
        gate, startup_seconds = judge_gate(request, known, sources, now), known.limits.startup_seconds

        def result(last: Deploy) -> Deploy:
            if not is_same(last, deploy.deployed_at, deploy.ref):
                return last
            return judged(last, now, startup_seconds, passed=gate.passed, failed=gate.failed)

        def recorded(deploys: tuple[Deploy, ...] | None) -> tuple[Deploy, ...]:
            return tuple(result(each) if each.shard == deploy.shard else each for each in deploys or ())

        if result(deploy) != deploy:
            await self._deploys.revise([keys.deploys(installation)], {known.rule.name: recorded})

    async def answered(self, installation: int, pool: str, answer: ActiveShardAnswer) -> None:
        """Records the answer of the pool's command or URL."""
        key = f"{keys.active(installation)}:{pool}"
        await self._redis.set(key, _answers.encode(answer), ex=int(ANSWER_SECONDS))

    async def answer(self, installation: int, pool: str) -> ActiveShardAnswer | None:
        """Returns its last answer; None if there was none for minutes."""
        key = f"{keys.active(installation)}:{pool}"
        row: Any = await self._redis.get(key)
        return await self._read_answer.one(key, row)


KEPT_SECONDS = 30 * 86_400

_gate_checks = Codec("gate-check", GateCheck)


class GateChecks:
    """The gate checks of all installations. Writers must have the lock `gate` of the installation."""

    def __init__(self, redis: Redis) -> None:
        self._redis, self._read = redis, RecordReader(redis, _gate_checks)

    async def list(self, installation: int) -> dict[str, GateCheck]:
        """Returns the last gate check of each shard, by `gate_checks.place_of`."""
        rows: Any = await self._redis.hgetall(keys.gates(installation))
        return await self._read.many(keys.gates(installation), {place.decode(): row for place, row in rows.items()})

    async def keep(self, installation: int, place: str, gate_check: GateCheck) -> None:
        """Records a gate check, in place of the shard's last one."""
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.hset(keys.gates(installation), place, _gate_checks.encode(gate_check))
            pipe.expire(keys.gates(installation), KEPT_SECONDS)
            await pipe.execute()
