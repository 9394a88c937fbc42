"""The gate checks of deployed commits."""

from ghapp.gate.gate_checks import GateCheck
from ghapp.gate.store import GateChecks
from ghapp.store import keys

ROUND = GateCheck("0" * 40, 1_790_000_000.5, "acme/infra", 1_790_000_001.0)


async def test_the_last_gate_check_of_a_shard_is_kept_for_a_month(redis):
    gates = GateChecks(redis)
    assert await gates.list(7) == {}
    await gates.keep(7, "linux/pink", ROUND)
    await gates.keep(7, "linux/purple", ROUND._replace(over=True))
    await gates.keep(7, "linux/pink", ROUND._replace(check_run=60_000_000_001, private=False, digest="d"))
    assert await gates.list(7) == {
        "linux/pink": ROUND._replace(check_run=60_000_000_001, private=False, digest="d"),
        "linux/purple": ROUND._replace(over=True),
    }
    assert await gates.list(8) == {}
    assert await redis.ttl(keys.gates(7)) == 30 * 86_400


async def test_a_non_ascii_name_is_read_back_unchanged(redis):
    await GateChecks(redis).keep(7, "größe/pink", ROUND)
    assert (await GateChecks(redis).list(7)).keys() == {"größe/pink"}
