"""What may be hindered, by its name in the report."""

from ghapp.health.cluster.hindrance import LOG_STORE, logs_in, objects_in, places_of, pods_in


def test_every_view_of_every_namespace_and_the_log_store_where_there_is_one():
    of_one = [pods_in("a"), objects_in("a"), logs_in("a")]
    assert places_of(["a"], has_log_store=False) == of_one
    assert places_of(["a", "b"], has_log_store=True) == [
        *of_one,
        pods_in("b"),
        objects_in("b"),
        logs_in("b"),
        LOG_STORE,
    ]
    assert places_of([], has_log_store=False) == []
