"""The App's installations: permissions, suspension, names, GitHub's latest answers and pages, data of uninstalled ones.

Other scopes than organizations are recorded with them, see `Installation`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from redis.asyncio import Redis

from ghapp.installations.etag_page import EtagPage
from ghapp.installations.installation import Installation, known_as, named_by
from ghapp.installations.repositories import Repositories
from ghapp.installations.scope import ScopeKind
from ghapp.store import keys
from ghapp.store.codec import Codec
from ghapp.store.compare_and_set import RecordWriter
from ghapp.store.quarantine import PlainReader, RecordReader

_installations = Codec("installation", Installation)

MOST_OWNERS = 20_000
"""Names whose account is recorded; later ones are not, so that no account loses its name."""

Rows = Mapping[str, Installation]


class Installations:
    """All installations, by the names in the configuration.

    Args:
        redis: the client.
        named: the orgs named by the configuration, in lower case, and how many settings name each. None without a
            configuration: then each installation has the name under which it was recorded.
    """

    def __init__(self, redis: Redis, named: Mapping[str, int] | None = None) -> None:
        self._redis, self._named = redis, named
        self._read = RecordReader(redis, _installations)
        self._read_owners = PlainReader(redis, "name-owner", int)
        self._write = RecordWriter(redis, _installations, self._read)

    async def all(self) -> list[Installation]:
        """Returns all installations, sorted by id."""
        rows: Any = await self._redis.hgetall(keys.INSTALLATIONS)
        records = await self._read.many(keys.INSTALLATIONS, rows)
        return sorted(map(self._by_name, records.values()), key=lambda installation: installation.id)

    async def batches(self, size: int) -> AsyncIterator[list[Installation]]:
        """Yields all installations, sorted by id, at most `size` at a time: to query the records of several at once."""
        known = await self.all()
        for start in range(0, len(known), size):
            yield known[start : start + size]

    async def one(self, installation: int) -> Installation | None:
        """Returns an installation by its id."""
        row: Any = await self._redis.hget(keys.INSTALLATIONS, str(installation))
        record = await self._read.one(keys.INSTALLATIONS, row, str(installation))
        return None if record is None else self._by_name(record)

    async def unknown(self, ids: Collection[int]) -> set[int]:
        """Returns those of the ids of which no installation is recorded, by one command."""
        asked = sorted(ids)
        rows: Any = await self._redis.hmget(keys.INSTALLATIONS, [str(each) for each in asked]) if asked else []
        return {each for each, row in zip(asked, rows, strict=True) if row is None}

    async def of(self, org: str) -> Installation | None:
        """Returns an installation by any of its own names, case-insensitively."""
        return next((each for each in await self.all() if each.answers_to(org)), None)

    async def put(self, installation: Installation) -> Installation:
        """Records GitHub's description of one installation; returns it with its known names."""
        field, owners = str(installation.id), await self.owners()

        def revise(known: Rows) -> Rows:
            return _with_scopes({**known, field: self._known_as(installation, known, owners)}, known)

        rows = await self._write.revise_all(keys.INSTALLATIONS, revise, keep_unreadable=True)
        await self._own(rows.values(), owners)
        return rows[field]

    async def put_scopes(self, parent: int, scopes: Iterable[Installation]) -> None:
        """Records the repositories' scopes that use an installation's token, and deletes its others.

        Nothing is recorded for an installation that is not known any more.
        """
        listed = {str(each.id): each for each in scopes}

        def revise(known: Rows) -> Rows:
            others = {field: each for field, each in known.items() if each.parent != parent}
            return _with_scopes(others, {**others, **listed}) if str(parent) in known else others

        await self._write.revise_all(keys.INSTALLATIONS, revise, keep_unreadable=True)

    async def replace_all(self, installations: Iterable[Installation]) -> list[Installation]:
        """Records a complete list, and deletes all others but scopes of repositories whose installation is in it.

        Returns the list with known names, in the same order, and then these scopes.
        """
        listed, owners = list(installations), await self.owners()

        def revise(known: Rows) -> Rows:
            seen = dict(known)  # names of deleted installations stay taken until the list is complete
            for each in listed:
                seen[str(each.id)] = self._known_as(each, seen, owners)
            return _with_scopes({str(each.id): seen[str(each.id)] for each in listed}, known)

        rows = await self._write.revise_all(keys.INSTALLATIONS, revise, keep_unreadable=False)
        await self._own(rows.values(), owners)
        return [*rows.values()]

    def _known_as(self, described: Installation, known: Rows, owners: Mapping[str, int]) -> Installation:
        if described.kind is not ScopeKind.ORGANIZATION:
            return described  # named below its installation
        return known_as(described, known.values(), self._named or {}, owners)

    async def owners(self) -> dict[str, int]:
        """Returns the account of each name that an installation ever had here.

        The configuration and tokens have names, and outlive installations: another account that takes a name later must
        not come by them.
        """
        rows: Any = await self._redis.hgetall(keys.NAME_OWNERS)
        owners = await self._read_owners.many(keys.NAME_OWNERS, rows)
        return {name.decode(): account for name, account in owners.items()}

    async def _own(self, installations: Iterable[Installation], owners: Mapping[str, int]) -> None:
        accounts = [each for each in installations if each.kind is ScopeKind.ORGANIZATION]
        names = {name.lower(): each.account_id for each in accounts for name in each.own}
        new = {name: account for name, account in names.items() if name not in owners}
        async with self._redis.pipeline(transaction=False) as pipe:
            for name, account in [*new.items()][: max(0, MOST_OWNERS - len(owners))]:
                pipe.hsetnx(keys.NAME_OWNERS, name, account)
            await pipe.execute()

    def _by_name(self, record: Installation) -> Installation:
        return record if self._named is None else named_by(record, self._named)

    async def scopes_of(self, installation: int) -> list[Installation]:
        """Returns the repositories' scopes that use an installation's token, sorted by id."""
        return [each for each in await self.all() if each.parent == installation]

    async def remove(self, *installations: int) -> None:
        """Deletes installations and scopes, as after the App was uninstalled there."""
        await self._redis.hdel(keys.INSTALLATIONS, *map(str, installations))


def _with_scopes(rows: Rows, known: Rows) -> Rows:
    """Returns the rows, and those of the known scopes whose installation is among them, with its permissions."""
    scopes = {
        field: replace(each, permissions=parent.permissions, suspended=parent.suspended)
        for field, each in known.items()
        if each.parent and (parent := rows.get(str(each.parent))) is not None
    }
    return {**rows, **scopes}


MEMORY_SECONDS = 10.0
"""How long an answer is cached; and how long nothing is cached after a contradiction."""

CONTRADICTED = b"contradicted"


class InstallationState(NamedTuple):
    """GitHub's answer about one installation. Fields are only ever appended.

    Attributes:
        installation: as GitHub describes it.
        asked_at: when the request was sent (epoch seconds, our clock); the answer is not older.
    """

    installation: Installation
    asked_at: float


_states = Codec("installation-state", InstallationState)


class InstallationStates:
    """GitHub's answers about all installations, cached for some seconds for all processes.

    Each confirmation must know that the installation is still the same account, not suspended, and permitted. Without
    the cache each confirmation would cost a call of the App's own hourly limit, which all installations share.
    """

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._read = RecordReader(redis, _states)

    async def last(self, installation: int) -> InstallationState | None:
        """Returns the answer of the last `MEMORY_SECONDS`; None without one, or after a contradiction."""
        key = keys.installation_state(installation)
        row: Any = await self._redis.get(key)
        return None if row == CONTRADICTED else await self._read.one(key, row)

    async def remember(self, state: InstallationState) -> None:
        """Caches an answer, unless one is cached, or a contradiction came within the last `MEMORY_SECONDS`.

        An answer that was in flight when a delivery contradicted it is therefore not cached.
        """
        key = keys.installation_state(state.installation.id)
        await self._redis.set(key, _states.encode(state), nx=True, px=int(MEMORY_SECONDS * 1000))

    async def contradict(self, installation: int) -> None:
        """Discards the cached state after a delivery, or another answer of GitHub, indicates a change.

        For `MEMORY_SECONDS` nothing is cached, and each confirmation asks GitHub.
        """
        await self._redis.set(keys.installation_state(installation), CONTRADICTED, px=int(MEMORY_SECONDS * 1000))


REPOSITORIES_SECONDS = 86_400
"""Longer than any search takes to come round; without a search, what is known is outdated."""

_repositories = Codec("repositories", Repositories)


class ScopedRepositories:
    """The repositories of each installation that patterns take, and when GitHub was asked for their runners."""

    def __init__(self, redis: Redis) -> None:
        self._redis, self._read = redis, RecordReader(redis, _repositories)

    async def get(self, installation: int) -> Repositories | None:
        """Returns those of an installation; None before the first list."""
        key = keys.repositories(installation)
        row: Any = await self._redis.get(key)
        return await self._read.one(key, row)

    async def put(self, installation: int, repositories: Repositories) -> None:
        """Records them."""
        row: Any = _repositories.encode(repositories)
        await self._redis.set(keys.repositories(installation), row, ex=REPOSITORIES_SECONDS)


PAGES_SECONDS = 2 * 3600
"""After a page changed. A token is valid for an hour, and all pages count as changed with the next one."""


class StoredPage(NamedTuple):
    """A page as it is stored. Fields are only ever appended."""

    token: str
    etag: str
    deflated: bytes


_pages = Codec("page", StoredPage)


class EtagPages:
    """Pages of the runner lists of all installations with their ETags, so that an unchanged page costs no rate limit.

    An ETag is valid for one token; with a new token the pages are discarded.
    """

    def __init__(self, redis: Redis) -> None:
        self._redis, self._read = redis, RecordReader(redis, _pages)

    async def of(self, installation: int, token: str) -> dict[int, EtagPage]:
        """Returns the pages of this token (its fingerprint), by number from 1."""
        key = keys.pages(installation)
        rows: Any = await self._redis.hgetall(key)
        stored = await self._read.many(key, rows)
        return {int(number): EtagPage(row.etag, row.deflated) for number, row in stored.items() if row.token == token}

    async def keep(self, installation: int, token: str, changed: Mapping[int, EtagPage], last: int) -> None:
        """Stores the changed pages, and deletes those after the last."""
        known: Any = await self._redis.hkeys(keys.pages(installation))
        behind = [row for row in known if int(row) > last]
        rows = {
            str(number): _pages.encode(StoredPage(token, page.etag, page.deflated)) for number, page in changed.items()
        }
        async with self._redis.pipeline(transaction=False) as pipe:
            if rows:
                pipe.hset(keys.pages(installation), mapping=rows)  # type: ignore[arg-type]
                pipe.expire(keys.pages(installation), PAGES_SECONDS)
            if behind:
                pipe.hdel(keys.pages(installation), *behind)
            await pipe.execute()


KEPT_SECONDS = 30 * 86_400.0
"""From the uninstallation until its data expires."""

SCAN_COUNT = 1000
MOST_SCANS = 50
"""Steps of SCAN in one call, each of about `SCAN_COUNT` keys; the next call continues."""

_OF_INSTALLATION = re.compile(rb"ghapp:(-?[1-9]\d*):")

_NOW = "local t = redis.call('TIME') local now = t[1] * 1000 + math.floor(t[2] / 1000)"

_EXPIRE = f"""
local at = redis.call('HGET', KEYS[1], ARGV[1])
if not at then return 0 end
at = tonumber(at) + tonumber(ARGV[2])
{_NOW}
for i = 3, #KEYS do
  local left = redis.call('PTTL', KEYS[i])
  if left == -1 or (left > 0 and now + left > at + 1000) then
    redis.call('HSET', KEYS[2], KEYS[i], left == -1 and '-1' or string.format('%.0f', now + left))
    redis.call('PEXPIREAT', KEYS[i], string.format('%.0f', at))
  end
end
redis.call('PEXPIREAT', KEYS[2], string.format('%.0f', at))
return 1
"""
"""KEYS: uninstalled, former expiries, then keys. ARGV: installation, milliseconds to keep."""

_RESTORE = f"""
local at = redis.call('HGET', KEYS[1], ARGV[1])
if not at then return 0 end
at = tonumber(at) + tonumber(ARGV[2])
{_NOW}
for i = 3, #KEYS do
  local former, left = redis.call('HGET', KEYS[2], KEYS[i]), redis.call('PTTL', KEYS[i])
  if former and left > 0 and math.abs(now + left - at) <= 1000 then
    if former == '-1' then redis.call('PERSIST', KEYS[i]) else redis.call('PEXPIREAT', KEYS[i], former) end
  end
  redis.call('HDEL', KEYS[2], KEYS[i])
end
return 1
"""
"""As `_EXPIRE`. A key with another expiry than ours was written again since, and is left alone."""


class UninstalledData:
    """Expiries of the data of uninstalled installations.

    Each key `ghapp:{id}:…` expires 30 days after the App was uninstalled; keys that expire earlier by themselves are
    left alone. If the same installation is listed again, each key gets back the expiry that it had, or none: a list of
    installations may have lacked it. After a real uninstallation GitHub gives the App another id. Each step may be
    repeated, also after a crash; discovery repeats it.
    """

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._expire: Any = redis.register_script(_EXPIRE)
        self._restore: Any = redis.register_script(_RESTORE)

    async def removed(self, installations: Iterable[int], now: float) -> None:
        """Records that these installations are uninstalled; call it before their own records are deleted.

        Args:
            installations: their ids; one that was recorded before keeps its time.
            now: epoch seconds.
        """
        for each in installations:
            await self._redis.hsetnx(keys.UNINSTALLED, str(each), f"{now * 1000:.0f}")

    async def returned(self, installations: Iterable[int]) -> None:
        """Restores the expiries of these installations, as far as they were uninstalled."""
        recorded: Any = await self._redis.hkeys(keys.UNINSTALLED)
        for each in {int(row) for row in recorded} & set(installations):
            former = keys.former_expiries(each)
            found: Any = await self._redis.hkeys(former)
            for at in range(0, len(found), SCAN_COUNT):
                await self._run(self._restore, each, found[at : at + SCAN_COUNT])
            await self._redis.hdel(keys.UNINSTALLED, str(each))

    async def expire(self, now: float) -> None:
        """Sets the expiry of keys of uninstalled installations, as many as `MOST_SCANS` steps find.

        Args:
            now: epoch seconds; an installation whose data has expired is forgotten.
        """
        recorded: Any = await self._redis.hgetall(keys.UNINSTALLED)
        since = {row: float(at) / 1000 for row, at in recorded.items()}
        for row in [row for row, at in since.items() if now - at > KEPT_SECONDS]:
            await self._redis.hdel(keys.UNINSTALLED, row.decode())
            del since[row]
        if not since:
            return
        cursor = int(await self._redis.get(keys.UNINSTALLED_CURSOR) or 0)
        for _ in range(MOST_SCANS):
            scanned: Any = await self._redis.scan(cursor, match="ghapp:[-1-9]*", count=SCAN_COUNT)
            cursor, found = scanned
            by_installation = defaultdict[bytes, list[bytes]](list)
            for key in found:
                if (match := _OF_INSTALLATION.match(key)) is not None and match[1] in since:
                    by_installation[match[1]].append(key)
            for row, group in by_installation.items():
                await self._run(self._expire, int(row), group)
            if not cursor:
                break
        await self._redis.set(keys.UNINSTALLED_CURSOR, cursor, ex=int(KEPT_SECONDS))

    async def _run(self, script: Any, installation: int, found: Iterable[bytes]) -> None:
        former = keys.former_expiries(installation)
        data = [key for key in found if key != former.encode()]
        await script([keys.UNINSTALLED, former, *data], [str(installation), f"{KEPT_SECONDS * 1000:.0f}"])
