"""Post-mortem check runs: each is published once."""

from ghapp.deaths.post_mortem_store import PostedMortem, PostMortems
from ghapp.store import keys


async def test_a_published_post_mortem_is_kept_for_a_month(redis):
    store = PostMortems(redis)
    assert await store.posted("death") is None
    await store.post("death", PostedMortem(42, "digest"))
    await store.post("death", PostedMortem(42, "another"))
    assert await store.posted("death") == PostedMortem(42, "another")
    assert await store.posted("other") is None
    assert await redis.ttl(keys.post_mortem("death")) == 30 * 86_400


async def test_a_failure_is_not_logged_again_for_a_day(redis):
    store = PostMortems(redis)
    text = [await store.mark_published(7, "a"), await store.mark_published(7, "a"), await store.mark_published(7, "b")]
    assert text == [True, False, True]
    assert await store.mark_published(8, "a") is True
    assert await redis.ttl(keys.published(7, "a")) == 86_400
