"""What follows a death: its post-mortem's check run, its job's re-run, daily messages, and the cluster's summary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from redis.asyncio import Redis

from ghapp.deaths.cause import Cause
from ghapp.deaths.cluster_summary import BRIDGED_SECONDS, ClusterSummary
from ghapp.deaths.rerun import Rerun, RerunNote, RerunState
from ghapp.pods.phantom_kinds import PhantomKind, PhantomReason
from ghapp.store import keys
from ghapp.store.codec import DROPPED, Codec
from ghapp.store.quarantine import RecordReader

KEPT_SECONDS = 30 * 86_400
PUBLISHED_SECONDS = 86_400
BACKOFF_SECONDS = 60
"""After the log store gave no answer: a request then takes seconds, and there may be hundreds of deaths at once."""


class PostedMortem(NamedTuple):
    """A check run of a death. Fields are only ever appended.

    Attributes:
        check_run: its id.
        digest: of its content.
        death: the death's `deaths.store.identity`; empty if unknown.
        has_button: True if it was last posted with the button that runs the job again.
    """

    check_run: int
    digest: str
    death: str = ""
    has_button: bool = False

    def button_at(self, job_url: str) -> str | None:
        """Returns the address of the check run, beside the page of its job at GitHub; None if it has no button."""
        repository, is_known, _ = job_url.partition("/actions/")
        return f"{repository}/runs/{self.check_run}" if self.has_button and is_known else None


_posted = Codec("post-mortem", PostedMortem)


class PostMortems:
    """The post-mortems of all installations, by the id of the death."""

    def __init__(self, redis: Redis) -> None:
        self._redis, self._read = redis, RecordReader(redis, _posted)

    async def posted(self, death_id: str) -> PostedMortem | None:
        """Returns the check run of a death; None if none is known."""
        row: Any = await self._redis.get(keys.post_mortem(death_id))
        return await self._read.one(keys.post_mortem(death_id), row)

    async def of_deaths(self, death_ids: Sequence[str]) -> dict[str, PostedMortem]:
        """Returns the check runs of these deaths, by id, as far as they are known."""
        places = [keys.post_mortem(each) for each in death_ids]
        rows: Any = await self._redis.mget(places) if places else []
        found = [await self._read.one(*each) for each in zip(places, rows, strict=True)]
        return {which: posted for which, posted in zip(death_ids, found, strict=True) if posted is not None}

    async def post(self, death_id: str, posted: PostedMortem) -> None:
        """Records the check run of a death."""
        await self._redis.set(keys.post_mortem(death_id), _posted.encode(posted), ex=KEPT_SECONDS)

    async def mark_published(self, installation: int, what: str) -> bool:
        """Marks this message as published; returns True unless it was published in the last day."""
        return bool(await self._redis.set(keys.published(installation, what), b"1", nx=True, ex=PUBLISHED_SECONDS))

    async def back_off_log_store(self) -> None:
        """Records that the log store gave no answer; it is not queried for a minute."""
        await self._redis.set(keys.LOG_STORE_BACKOFF, b"1", ex=BACKOFF_SECONDS)

    async def is_log_store_backed_off(self) -> bool:
        """True within a minute after the log store gave no answer."""
        return bool(await self._redis.exists(keys.LOG_STORE_BACKOFF))


RERUNS_KEPT_SECONDS = 31 * 86_400
"""GitHub re-runs a job up to 30 days after the first run."""

NOTED_SECONDS = 7 * 86_400

_notes = Codec("rerun-note", RerunNote)
_reruns = Codec("rerun", Rerun, unknown={RerunState: RerunState.REFUSED})


class Reruns:
    """The re-runs of all installations. Writers must have the lock `rerun` of the job."""

    def __init__(self, redis: Redis) -> None:
        self._redis, self._read = redis, RecordReader(redis, _reruns)
        self._read_note = RecordReader(redis, _notes)

    async def of(self, installation: int, job_id: int) -> Rerun | None:
        """Returns the re-run of a job; None if none was requested."""
        row: Any = await self._redis.get(keys.rerun(installation, job_id))
        return await self._read.one(keys.rerun(installation, job_id), row)

    async def of_jobs(
        self, installation: int, job_ids: Sequence[int]
    ) -> dict[int, tuple[Rerun | None, RerunNote | None]]:
        """Returns for each of these jobs what `of` and `noted` return."""
        places = [keys.rerun(installation, each) for each in job_ids]
        places += [keys.rerun_note(installation, each) for each in job_ids]
        rows: Any = await self._redis.mget(places) if places else []
        found: dict[int, tuple[Rerun | None, RerunNote | None]] = {}
        for index, job_id in enumerate(job_ids):
            at_note = index + len(job_ids)
            rerun = await self._read.one(places[index], rows[index])
            found[job_id] = rerun, await self._read_note.one(places[at_note], rows[at_note])
        return found

    async def begin(self, installation: int, rerun: Rerun) -> bool:
        """Records the intent, before GitHub is asked; returns False if the job has a re-run already."""
        key, row = keys.rerun(installation, rerun.job_id), _reruns.encode(rerun)
        return bool(await self._redis.set(key, row, nx=True, ex=RERUNS_KEPT_SECONDS))

    async def keep(self, installation: int, rerun: Rerun) -> None:
        """Records the progress of a re-run."""
        await self._redis.set(keys.rerun(installation, rerun.job_id), _reruns.encode(rerun), ex=RERUNS_KEPT_SECONDS)

    async def forget(self, installation: int, job_id: int) -> None:
        """Deletes the intent of a request that GitHub did not take, because a permission is missing."""
        await self._redis.delete(keys.rerun(installation, job_id))

    async def note(self, installation: int, job_id: int, note: RerunNote) -> None:
        """Records why a try sent no request, for people who look at the death."""
        await self._redis.set(keys.rerun_note(installation, job_id), _notes.encode(note), ex=NOTED_SECONDS)

    async def noted(self, installation: int, job_id: int) -> RerunNote | None:
        """Returns why the last try sent no request; None if there was none within a week."""
        row: Any = await self._redis.get(keys.rerun_note(installation, job_id))
        return await self._read_note.one(keys.rerun_note(installation, job_id), row)

    async def grant_unasked(self, installation: int, repository: str, most: int, now: float) -> bool:
        """Counts an unasked re-run; returns False if there were `most` in this hour of the clock."""
        key = keys.reruns_of_hour(installation, repository, int(now // 3600))
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.incr(key)
            pipe.expire(key, 3600)
            count, _ = await pipe.execute()
        return int(count) <= most


_summaries = Codec(
    "cluster-summary", ClusterSummary, unknown={PhantomKind: DROPPED, PhantomReason: DROPPED, Cause: Cause.UNKNOWN}
)


class ClusterSummaries:
    """The summaries of all installations."""

    def __init__(self, redis: Redis) -> None:
        self._redis, self._read = redis, RecordReader(redis, _summaries)

    async def keep(self, installation: int, cluster_summary: ClusterSummary) -> None:
        """Records a summary; it expires unless another one follows."""
        await self._redis.set(
            keys.cluster_summary(installation), _summaries.encode(cluster_summary), ex=int(BRIDGED_SECONDS)
        )

    async def of(self, installation: int) -> ClusterSummary | None:
        """Returns the last summary; None if it is older than ten minutes, or unreadable."""
        row: Any = await self._redis.get(keys.cluster_summary(installation))
        return await self._read.one(keys.cluster_summary(installation), row)
