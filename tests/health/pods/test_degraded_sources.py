"""The names of the sources that may be degraded."""

from ghapp.health.pods.degraded_sources import (
    HOST_LINES,
    RUNNER_LINES,
    leaks_source,
    logs_source,
    objects_source,
    pods_source,
    sources_of,
)


def test_the_sources_are_each_view_of_each_namespace_and_the_log_store_if_configured():
    of_one = [pods_source("a"), objects_source("a"), logs_source("a"), leaks_source("a")]
    assert sources_of(["a"], has_log_store=False) == of_one
    assert sources_of(["a", "b"], has_log_store=True) == [
        *of_one,
        pods_source("b"),
        objects_source("b"),
        logs_source("b"),
        leaks_source("b"),
        RUNNER_LINES,
        HOST_LINES,
    ]
    assert sources_of([], has_log_store=False) == []
