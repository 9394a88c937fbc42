"""Workflow jobs, the check runs that explain why they wait, and the runner groups that may exclude them.

Jobs are known from deliveries: queued and running ones, and those that ended within 30 days. An ended job is found by
its id, and by its runner, commit and run through buckets of ids: 4,096 sets of integers for each of the three, which
take eight bytes a job. What a bucket has too much is filtered after the records are read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from zlib import crc32

from redis.asyncio import Redis

from ghapp.gate.shard_status import TakenJob
from ghapp.incidents.history import WAIT_PREFIX, bucket_of
from ghapp.store import keys
from ghapp.store.codec import Codec
from ghapp.store.metric_counters import COUNT, history_field, other_history_field
from ghapp.store.quarantine import Member, PlainReader, RecordReader
from ghapp.untrusted_text import one_line
from ghapp.workflow_jobs.job import Job, JobSearch, PullReference, is_sha, was_hosted
from ghapp.workflow_jobs.queue_check import QueueCheck
from ghapp.workflow_jobs.reason import WaitReason
from ghapp.workflow_jobs.runner_groups import RunnerGroups

_jobs = Codec("job", Job, unknown={frozenset({"queued", "running", "over"}): "queued"})

OVER_SECONDS = 3600
"""The age of jobs that `over` returns. An ended job that is not listed, as a hosted one, is kept for this long: a late
delivery of its start must not revive it."""

MOST_OVER = 5_000
"""Maximum of ended jobs per installation that `over` returns, the latest."""

ENDED_SECONDS = 30 * 86_400
"""How long an ended job is kept."""

MOST_ENDED = 100_000
"""Maximum of ended jobs that are kept per installation, the latest; some 69 MB in Redis."""

MOST_FOUND = 5_000
"""Maximum of jobs that a search reads, the latest by id."""

WAITS_SECONDS = 6 * 86_400
"""How long a reason is known after the last change of any: longer than a job can run."""

MOST_COMMITS = 100
"""Maximum of commits of one pull request that are known, the latest."""

BUCKETS = 4_096

MOST_LABELS, LONGEST_TEXT = 20, 256
"""Of the labels and of each text of an ended job, so that its record has a bound in bytes."""

MOST_TAKEN = 20_000
"""Maximum of jobs taken within the last hour that are kept per installation, the latest."""

_NO_POOLS: Mapping[int, str] = {}

_KINDS = ("runner", "sha", "run")
_NO_BUCKET = "-"

READ_AT_ONCE = 1_000
TRIMMED_AT_ONCE = 200
"""Ended jobs that are looked at for their age with each batch."""

WAITED_SECONDS = 31 * 86_400
"""How long a job that waits for an approval is known: GitHub ends it after 30 days."""

_APPROVALS = """
local found = {}
for i = 3, #ARGV, 4 do
    local key, status, sent = KEYS[1] .. ':' .. ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 3])
    local at = redis.call('GET', key)
    local waits = at and (at == '' or string.sub(at, 1, 1) == '-')
    local since = waits and tonumber(at)
    if status == 'waiting' and (not at or at == '0') then
        at = sent and '-' .. ARGV[i + 3] or ''
        redis.call('SET', key, at, 'EX', ARGV[2])
    elseif not at and ARGV[i + 2] == '1' then
        at = '0'
        redis.call('SET', key, at, 'EX', ARGV[2])
    elseif status ~= 'waiting' and waits and not (sent and since and sent < -since) then
        at = ARGV[1]
        redis.call('SET', key, at, 'EX', ARGV[2])
    end
    if at and status == 'completed' then redis.call('EXPIRE', key, 3600) end
    found[#found + 1] = at
end
return found
"""
"""Jobs that waited for an approval, each with the time at which it was first reported not to wait any more; 0 for those
that deploy without one, because a later delivery may come without the deployment. While a job waits, the time is empty,
or the negative time at which GitHub sent that it waits: what was sent before, and comes after, approves nothing."""

_RECORD = (
    COUNT
    + """
local function buckets(member)
    local found, place = {}, 6
    for bucket in string.gmatch(member, ' ([^ ]+)') do
        if bucket ~= '-' then found[#found + 1] = KEYS[place] .. ':' .. bucket end
        place = place + 1
    end
    return found
end
local newest
redis.call('DEL', KEYS[5])
for i = 1, #ARGV, 15 do
    local id, status, row, ended, waited = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]
    local over = KEYS[2] .. ':' .. id
    if waited ~= '' and redis.call('EXISTS', over) == 0 then
        local stored = redis.call('HGET', KEYS[1], id)
        local readable, known = pcall(cmsgpack.unpack, stored or '')
        if not (readable and type(known) == 'table' and known[2] == 'running') then
            count(KEYS[4], ARGV[i + 5], ARGV[i + 6], 1)
            if waited ~= '0' then count(KEYS[4], ARGV[i + 7], ARGV[i + 8], waited) end
            count(KEYS[4], ARGV[i + 9], ARGV[i + 10], 1)
            raise(KEYS[4], ARGV[i + 11], ARGV[i + 12], waited)
        end
    end
    if status == 'over' then
        redis.call('HDEL', KEYS[1], id)
        if ended == '' then
            redis.call('SET', over, row, 'EX', HOUR)
        else
            redis.call('SET', over, row, 'EX', MONTH)
            redis.call('ZADD', KEYS[3], ended, ARGV[i + 13])
            newest = math.max(newest or 0, tonumber(ended))
            for _, bucket in ipairs(buckets(ARGV[i + 13])) do
                redis.call('SADD', bucket, id)
                redis.call('EXPIRE', bucket, MONTH)
            end
        end
    elseif redis.call('EXISTS', over) == 0 then
        local stored = redis.call('HGET', KEYS[1], id)
        local follows = status == 'running' or not stored
        if not follows then
            local readable, known = pcall(cmsgpack.unpack, stored)
            if readable and type(known) == 'table' and known[2] == 'queued' then
                local sent, before = tonumber(ARGV[i + 14]), tonumber(known[SENT])
                if sent and before then follows = sent >= before else follows = status == 'queued' end
            end
        end
        if follows then
            redis.call('HSET', KEYS[1], id, row)
        end
    end
end
if newest then
    local excess = redis.call('ZCARD', KEYS[3]) - MOST
    local dropped = redis.call('ZRANGE', KEYS[3], 0, math.max(excess, TRIMMED) - 1, 'WITHSCORES')
    for place = 1, #dropped, 2 do
        if (place + 1) / 2 > excess and tonumber(dropped[place + 1]) >= newest - MONTH then break end
        local id = string.match(dropped[place], '^%d+')
        redis.call('ZREM', KEYS[3], dropped[place])
        redis.call('DEL', KEYS[2] .. ':' .. id)
        for _, bucket in ipairs(buckets(dropped[place])) do redis.call('SREM', bucket, id) end
    end
    redis.call('EXPIRE', KEYS[3], MONTH)
end
"""
)
"""A job that a runner took is counted when its start is first known: by the delivery of its start, or of its end.

GitHub sends `queued`, or nothing, then `waiting`, then `queued` once a person has approved, and any of them may come
late. What was sent last holds, by the dates of the deliveries (`github.deliveries.dated`): a late `waiting` hides no
demand, and a late first `queued` approves nothing. Without both dates `queued` holds, whichever came last: taken
wrongly for demand, a job costs an idle runner until it is approved; taken wrongly for held, it would get no runner, and
only a runner ends that."""


def _taken(member: bytes) -> tuple[int, int]:
    job_id, runner_id = member.split()
    return int(job_id), int(runner_id)


class DeliveredStatus(NamedTuple):
    """What a delivery shows of a job's approval.

    Attributes:
        job_id: of the job.
        status: as GitHub names it.
        deploys: whether the delivery shows a deployment.
        sent_at: when GitHub sent it (epoch seconds), as of `Job`.
    """

    job_id: int
    status: str
    deploys: bool
    sent_at: float | None = None


class Demand:
    """The jobs of all installations. Deliveries may be repeated and in any order."""

    def __init__(self, redis: Redis) -> None:
        self._redis, self._read = redis, RecordReader(redis, _jobs)
        self._read_taken = PlainReader(redis, "taken-job", _taken)
        self._record_script: Any = redis.register_script(
            _RECORD.replace("HOUR", str(OVER_SECONDS))
            .replace("MONTH", str(ENDED_SECONDS))
            .replace("MOST", str(MOST_ENDED))
            .replace("TRIMMED", str(TRIMMED_AT_ONCE))
            .replace("SENT", str(Job._fields.index("sent_at") + 1))
        )
        self._approvals_script: Any = redis.register_script(_APPROVALS.replace("3600", str(OVER_SECONDS)))

    async def approvals(
        self, installation: int, delivered: Sequence[DeliveredStatus], now: float
    ) -> dict[int, float | None]:
        """Records which jobs wait for an approval or deploy, and returns those that do or did.

        Args:
            installation: the installation.
            delivered: in the order in which the deliveries came.
            now: the time of an approval that is first reported now (epoch seconds).

        Returns:
            By the job's id, when it was approved; None while it waits, 0 if it needed no approval.
        """
        if not delivered:
            return {}
        args: list[str | float] = [repr(now), WAITED_SECONDS]
        for each in delivered:
            args += [str(each.job_id), each.status, "1" if each.deploys else "", _date(each.sent_at)]
        rows: Any = await self._approvals_script(keys=[keys.approval(installation)], args=args)
        return {
            each.job_id: None if row == b"" or row.startswith(b"-") else float(row)
            for each, row in zip(delivered, rows, strict=True)
            if row is not None
        }

    async def record(
        self, installation: int, jobs: Sequence[Job], pools: Mapping[int, str] = _NO_POOLS, now: float = 0.0
    ) -> None:
        """Records queued and running jobs; those that are over are kept apart, for 30 days.

        Args:
            installation: the installation.
            jobs: as delivered.
            pools: by job id, the pool of the runner that took the job; the job is then counted in the history, once.
            now: of the count (epoch seconds); an end that is dated later counts as of now.
        """
        args: list[str | bytes] = []
        jobs = await self._with_reasons(installation, jobs)
        for job in jobs:
            listed = job.ended_at is not None and not was_hosted(job)
            status = "waiting" if job.waiting else job.status
            ended_at = min(job.ended_at or 0.0, now or float("inf"))
            args += [str(job.id), status, _encoded(job), repr(ended_at) if listed else ""]
            # One batch may have the delivery of a job's creation, too, which has no start.
            pool = None if job.started_at is None or job.runner_id is None else pools.get(job.id)
            waited = round(max(0.0, (job.started_at or 0.0) - job.queued_at))
            args += ["" if pool is None else str(waited)]
            for name in ("jobs", "waited_seconds", f"{WAIT_PREFIX}{bucket_of(waited)}", "longest_wait"):
                args += [history_field(now, name, pool or ""), other_history_field(now, name)]
            args += [_member(job), _date(job.sent_at)]
        if args:
            named = [
                keys.jobs(installation),
                keys.over(installation),
                keys.ended(installation),
                keys.history_counts(installation),
                keys.settled(installation),
                *(keys.ended_by(installation, kind) for kind in _KINDS),
            ]
            await self._record_script(keys=named, args=args)
        await self._remember_taken(installation, jobs)

    async def note_reasons(self, installation: int, reasons: Mapping[int, WaitReason], known: Collection[int]) -> None:
        """Records why queued jobs wait, so that it is still known when a runner took them, or they ended without one.

        Args:
            installation: the installation.
            reasons: by job id.
            known: ids of all jobs that are not over; the reasons of others are deleted.
        """
        key = keys.waits(installation)
        stored: Any = await self._redis.hgetall(key)
        recorded = {int(job_id): row for job_id, row in stored.items()}
        rows = {job_id: _wait_row(reason) for job_id, reason in reasons.items()}
        changed = {job_id: row for job_id, row in rows.items() if recorded.get(job_id) != row}
        ended = recorded.keys() - set(known)
        if not changed and not ended:
            return
        async with self._redis.pipeline(transaction=True) as pipe:
            if changed:
                pipe.hset(key, mapping={str(job_id): row for job_id, row in changed.items()})
            if ended:
                pipe.hdel(key, *map(str, ended))
            pipe.expire(key, WAITS_SECONDS)
            await pipe.execute()

    async def _with_reasons(self, installation: int, jobs: Sequence[Job]) -> list[Job]:
        """Returns the jobs; those that do not wait any more have the last recorded reason for which they waited."""
        waited = [job.id for job in jobs if job.status != "queued"]
        if not waited:
            return list(jobs)
        rows: Any = await self._redis.hmget(keys.waits(installation), list(map(str, waited)))
        reasons = {job_id: _wait_reason(row) for job_id, row in zip(waited, rows, strict=True) if row is not None}
        return [
            job._replace(waited_for=found.reason, lacked_labels=found.lacked_labels)
            if (found := reasons.get(job.id)) is not None
            else job
            for job in jobs
        ]

    async def _remember_taken(self, installation: int, jobs: Iterable[Job]) -> None:
        taken = {
            f"{job.id} {job.runner_id}": job.started_at
            for job in jobs
            if job.started_at is not None and job.runner_id is not None
        }
        if not taken:
            return
        key = keys.taken(installation)
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.zadd(key, taken)
            pipe.zremrangebyscore(key, "-inf", max(taken.values()) - OVER_SECONDS)
            pipe.zremrangebyrank(key, 0, -MOST_TAKEN - 1)
            pipe.expire(key, OVER_SECONDS)
            await pipe.execute()

    async def taken(self, installation: int, since: float) -> list[TakenJob]:
        """Returns all jobs that runners took since then, within the last hour, oldest first."""
        rows: Any = await self._redis.zrange(keys.taken(installation), since, "+inf", byscore=True, withscores=True)
        found = await self._read_taken.many(keys.taken(installation), {Member(member): member for member, _ in rows})
        return [TakenJob(*found[member], at) for member, at in rows if member in found]

    async def all(self, installation: int) -> list[Job]:
        """Returns all jobs that are not over."""
        key = keys.jobs(installation)
        rows: Any = await self._redis.hgetall(key)
        return [*(await self._read.many(key, rows)).values()]

    async def count(self, installation: int) -> int:
        """Returns the number of jobs that are not over."""
        return int(await self._redis.hlen(keys.jobs(installation)))

    async def over(self, installation: int) -> list[Job]:
        """Returns the jobs that ended within the last hour, the latest `MOST_OVER`, latest first; no hosted ones."""
        key = keys.ended(installation)
        newest: Any = await self._redis.zrevrange(key, 0, 0, withscores=True)
        if not newest:
            return []
        since = newest[0][1] - OVER_SECONDS
        members: Any = await self._redis.zrevrangebyscore(key, "+inf", since, 0, MOST_OVER)
        return await self._ended(installation, [member.split()[0].decode() for member in members])

    async def find_ended(self, installation: int, *searches: JobSearch) -> list[Job]:
        """Returns the jobs that ended within 30 days and match one of the searches, in two round trips; no hosted ones.

        A search is by runner, commit or run. Up to `MOST_FOUND` jobs are read, the latest by id.
        """
        async with self._redis.pipeline(transaction=False) as pipe:
            for search in searches:
                for sha in (search.sha,) if search.commits is None else search.commits:
                    buckets = zip(_KINDS, _buckets(search.runner, sha, search.run_id), strict=True)
                    sets = [
                        f"{keys.ended_by(installation, kind)}:{each}" for kind, each in buckets if each != _NO_BUCKET
                    ]
                    if sets:
                        pipe.sinter(sets)
            found: Any = await pipe.execute()
        latest = sorted(map(int, set[bytes]().union(*found)), reverse=True)[:MOST_FOUND]
        jobs = await self._ended(installation, list(map(str, latest)))
        return [job for job in jobs if any(search.matches(job) for search in searches)]

    async def note_pull(self, installation: int, pull: PullReference, sha: str, now: float) -> None:
        """Records that a commit is the head of a pull request."""
        key = keys.pull(installation, *pull)
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.zadd(key, {sha: now})
            pipe.zremrangebyrank(key, 0, -MOST_COMMITS - 1)
            pipe.expire(key, ENDED_SECONDS)
            await pipe.execute()

    async def note_check_run(self, installation: int, check_run: int, job_ids: Iterable[int]) -> None:
        """Records which jobs a check run of ghapp is about."""
        row = " ".join(map(str, job_ids))
        await self._redis.set(keys.check_run_jobs(installation, check_run), row, ex=ENDED_SECONDS)

    async def of_check_run(self, installation: int, check_run: int) -> list[Job]:
        """Returns the jobs that a check run of ghapp is about, as far as they are known."""
        row: Any = await self._redis.get(keys.check_run_jobs(installation, check_run))
        found = [await self.one(installation, int(each)) for each in (row or b"").split() if each.isdigit()]
        return [job for job in found if job is not None]

    async def of_pull(self, installation: int, pull: PullReference, search: JobSearch) -> JobSearch:
        """Returns a search, for jobs of a pull request's commits alone: those that were reported as its head."""
        rows: Any = await self._redis.zrange(keys.pull(installation, *pull), 0, -1)
        return search._replace(repository=pull.repository, commits=frozenset(row.decode() for row in rows))

    async def _ended(self, installation: int, ids: Sequence[str]) -> list[Job]:
        """Returns the jobs of these ids that are over, in that order; those that are not kept any more are left out."""
        found: list[Job] = []
        for start in range(0, len(ids), READ_AT_ONCE):
            named = [f"{keys.over(installation)}:{job_id}" for job_id in ids[start : start + READ_AT_ONCE]]
            rows: Any = await self._redis.mget(named)
            read = [await self._read.one(key, row) for key, row in zip(named, rows, strict=True) if row is not None]
            found += [job for job in read if job is not None]
        return found

    async def forget(self, installation: int, ids: Iterable[int]) -> None:
        """Deletes jobs that are not over: their end must have come, or they are another scope's.

        A later delivery would add them again.
        """
        if fields := list(map(str, ids)):
            await self._redis.hdel(keys.jobs(installation), *fields)

    async def known(self, installation: int, ids: Iterable[int]) -> set[int]:
        """Returns those of these jobs that are queued, running, or over for less than 30 days, by one round trip."""
        asked, key = list(ids), keys.jobs(installation)
        async with self._redis.pipeline(transaction=False) as pipe:
            for job_id in asked:
                pipe.hexists(key, str(job_id))
                pipe.exists(f"{keys.over(installation)}:{job_id}")
            found = await pipe.execute()
        return {job_id for job_id, *each in zip(asked, found[::2], found[1::2], strict=True) if any(each)}

    async def some(self, installation: int, ids: Collection[int]) -> dict[int, Job]:
        """Returns those of these jobs that are queued, running, or over for less than 30 days, by id."""
        if not ids:
            return {}
        key, fields = keys.jobs(installation), list(map(str, ids))
        rows: Any = await self._redis.hmget(key, fields)
        present = {field: row for field, row in zip(fields, rows, strict=True) if row is not None}
        jobs = [*(await self._read.many(key, present)).values()]
        jobs += await self._ended(installation, [field for field in fields if field not in present])
        return {job.id: job for job in jobs}

    async def one(self, installation: int, job_id: int) -> Job | None:
        """Returns a job that is queued, running, or over for less than 30 days; None if it is unknown."""
        key, over_key, field = keys.jobs(installation), f"{keys.over(installation)}:{job_id}", str(job_id)
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.hget(key, field)
            pipe.get(over_key)
            present, over = await pipe.execute()
        found = await self._read.one(key, present, field)
        return found or await self._read.one(over_key, over)


def _encoded(job: Job) -> bytes:
    """Returns a job's record; of an ended one, which is kept for long, with a bound."""
    if job.status != "over":
        return _jobs.encode(job)
    cut = ("workflow", "name", "html_url", "runner_group", "head_branch", "actor", "rerun_by")
    texts = {name: getattr(job, name)[:LONGEST_TEXT] for name in cut}
    labels = tuple(label[:LONGEST_TEXT] for label in job.labels[:MOST_LABELS])
    return _jobs.encode(job._replace(labels=labels, **texts))


def _wait_row(reason: WaitReason) -> bytes:
    """Returns the record of why a job waits, with a bound: the reason and the labels, a line each."""
    labels = (one_line(label, LONGEST_TEXT) for label in reason.lacked_labels[:MOST_LABELS])
    return "\n".join((reason.reason, *labels)).encode()


def _wait_reason(row: bytes) -> WaitReason:
    reason, *labels = row.decode().split("\n")
    return WaitReason(reason, tuple(labels))


def _date(at: float | None) -> str:
    return "" if at is None else repr(at)


def _member(job: Job) -> str:
    """Returns a job's member of `ended`: its id, and its bucket of each kind."""
    return " ".join((str(job.id), *_buckets(job.runner_name or "", job.head_sha, job.run_id)))


def _buckets(runner: str, sha: str, run_id: int | None) -> tuple[str, str, str]:
    by_runner = f"{crc32(runner.lower().encode()) % BUCKETS:x}" if runner else _NO_BUCKET
    by_sha = sha[:3].lower() if is_sha(sha) else _NO_BUCKET
    return by_runner, by_sha, _NO_BUCKET if run_id is None else f"{run_id % BUCKETS:x}"


CHECKS_KEPT_SECONDS = 3 * 86_400
"""After the last change: longer than a job can wait, so that a check is completed and never created twice."""

MOST_CHECKS = 2_000
"""Maximum of checks per installation. No other commit gets a check until completed ones are deleted."""

QUIET_SECONDS = 3600
"""How long a repository's answer is kept."""

POSTS_AN_HOUR = 200
"""Maximum of posts per installation. GitHub allows 500 content-creating requests an hour, for all purposes."""

_checks = Codec("queue-check", QueueCheck)


class QueueChecks:
    """The checks of all installations. Writers must have the lock `queue` of the installation."""

    def __init__(self, redis: Redis) -> None:
        self._redis, self._read = redis, RecordReader(redis, _checks)

    async def all(self, installation: int) -> dict[str, QueueCheck]:
        """Returns all checks, by `queue_check.place_of`."""
        rows: Any = await self._redis.hgetall(keys.queue_checks(installation))
        stored = {place.decode(errors="replace"): row for place, row in rows.items()}
        return await self._read.many(keys.queue_checks(installation), stored)

    async def any(self, installation: int) -> bool:
        """True if there is a check, completed ones included."""
        return bool(await self._redis.exists(keys.queue_checks(installation)))

    async def keep(self, installation: int, place: str, check: QueueCheck) -> None:
        """Records a check."""
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.hset(keys.queue_checks(installation), place, _checks.encode(check))
            pipe.expire(keys.queue_checks(installation), CHECKS_KEPT_SECONDS)
            await pipe.execute()

    async def forget(self, installation: int, *places: str) -> None:
        """Deletes checks."""
        if places:
            await self._redis.hdel(keys.queue_checks(installation), *places)

    async def is_quiet(self, installation: int, repository: str) -> bool | None:
        """Returns whether a repository opted out; None if that was not read within the hour."""
        row: Any = await self._redis.get(keys.quiet(installation, repository))
        return None if row is None else row == b"1"

    async def remember_quiet(self, installation: int, repository: str, *, quiet: bool) -> None:
        """Records whether a repository opted out, for an hour."""
        row = b"1" if quiet else b"0"
        await self._redis.set(keys.quiet(installation, repository), row, ex=QUIET_SECONDS)

    async def may_post(self, installation: int, now: float) -> bool:
        """Counts a post; returns False if there were `POSTS_AN_HOUR` in this hour of the clock."""
        key = keys.queue_posts(installation, int(now // 3600))
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.incr(key)
            pipe.expire(key, 3600)
            posts, _ = await pipe.execute()
        return int(posts) <= POSTS_AN_HOUR


GROUPS_KEPT_SECONDS = 2 * 3600
"""They are read once an hour. Older ones give no reason for a job to wait."""

_groups = Codec("runner-groups", RunnerGroups)


class RunnerGroupStore:
    """The runner groups of all installations."""

    def __init__(self, redis: Redis) -> None:
        self._redis, self._read = redis, RecordReader(redis, _groups)

    async def keep(self, installation: int, groups: RunnerGroups) -> None:
        """Records the groups of an organization."""
        await self._redis.set(keys.runner_groups(installation), _groups.encode(groups), ex=GROUPS_KEPT_SECONDS)

    async def of(self, installation: int) -> RunnerGroups | None:
        """Returns the groups; None if they were not read within two hours."""
        row: Any = await self._redis.get(keys.runner_groups(installation))
        return await self._read.one(keys.runner_groups(installation), row)
