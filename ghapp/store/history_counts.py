"""Counts for the history, added by the same scripts that record what is counted, so that each is counted exactly once.

A script that wants to count prepends `COUNT` to its source, and gives the key of the counts and what `field` returns.
A sweep joins the counts to the history; see `ghapp.incidents.store`.
"""

from __future__ import annotations

from ghapp.incidents.history import step_of
from ghapp.installations.pool_matching import OTHER_POOL

MOST_COUNTS = 20_000
"""Fields of an installation; beyond them counts go to the pool `other`. Sweeps keep the fields of a few steps only."""

COUNTS_KEPT_SECONDS = 7 * 86_400

COUNT = """
local function count(key, field, other, amount)
    local length = redis.pcall('HLEN', key)
    if type(length) ~= 'number' then return end
    if length >= MOST and redis.call('HEXISTS', key, field) == 0 then field = other end
    local added = redis.pcall('HINCRBY', key, field, amount)
    if type(added) ~= 'number' then redis.call('HSET', key, field, amount) end
    redis.call('EXPIRE', key, KEPT)
end
""".replace("MOST", str(MOST_COUNTS)).replace("KEPT", str(COUNTS_KEPT_SECONDS))
"""Lua. An unreadable value starts at zero again: counts must never prevent the record of what is counted."""


def field(at: float, name: str, pool: str) -> str:
    """Returns the field of a count in the step that contains `at` (epoch seconds)."""
    return f"{step_of(at)}|{name}|{pool}"


def other_field(at: float, name: str) -> str:
    """Returns the field that is used when there are too many."""
    return field(at, name, OTHER_POOL)


def parsed(row: bytes) -> tuple[int, str, str] | None:
    """Returns the step, the name and the pool of a field; None if it is none."""
    step, _, rest = row.decode(errors="replace").partition("|")
    name, _, pool = rest.partition("|")
    return (int(step), name, pool) if step.isascii() and step.isdigit() and name and pool else None
