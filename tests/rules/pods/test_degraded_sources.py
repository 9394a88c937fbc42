"""The names of the sources that may be degraded."""

from ghapp.pods.degraded_sources import (
    HOST_LINES,
    RUNNER_LINES,
    changes_source,
    deaths_source,
    leaks_source,
    logs_source,
    objects_source,
    pods_source,
    sources_of,
)


def test_the_sources_are_each_view_of_each_namespace_and_the_log_store_if_configured():
    each = (pods_source, deaths_source, objects_source, changes_source, logs_source, leaks_source)
    of_a, of_b = [place("a") for place in each], [place("b") for place in each]
    assert len({*of_a, *of_b}) == 2 * len(each)
    assert sources_of(["a"], has_log_store=False) == of_a
    assert sources_of(["a", "b"], has_log_store=True) == [*of_a, *of_b, RUNNER_LINES, HOST_LINES]
    assert sources_of([], has_log_store=False) == []
