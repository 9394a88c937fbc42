"""Stored series are read as they were written, and in the two formats that scrapers ask for."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from ghapp.deliveries.metrics import INBOX_LAG
from ghapp.metric import series_name
from ghapp.web.api.metrics import FORMATS, OPENMETRICS, _parsed, exposition, format_for

NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True).filter(lambda name: not name.startswith("__"))
"""Those that begin with two underscores are Prometheus' own."""


@given(st.dictionaries(NAMES, st.text(), max_size=4))
@example({"org": "acme", "pool": 'a"b\\c\nd\\n', "x": ""})
def test_a_series_is_read_as_it_was_written(labels):
    found = _parsed(series_name("ghapp_sweeps_total", labels))
    assert (found.name, found.labels) == ("ghapp_sweeps_total", labels)


@given(st.dictionaries(NAMES, st.text('ab"\\\n{},= é', max_size=6), max_size=3))
def test_it_is_read_as_prometheus_reads_it(labels):
    series = series_name("ghapp_sweeps_total", labels)
    ((sample,),) = [family.samples for family in text_string_to_metric_families(f"{series} 0\n")]
    assert _parsed(series)[:2] == sample[:2]


@pytest.mark.parametrize(
    "series",
    [
        "",
        "{}",
        "1x",
        'x{a="b"',
        "x{a=b}",
        'x{a="b",}',
        'x{a="b" c="d"}',
        'x{a="\\q"}',
        'x{"a"="b"}',
        "x y",
        'x{a="b"}z',
    ],
)
def test_what_is_no_series_is_none(series):
    assert _parsed(series) is None


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [
        ("", ""),
        ("*/*", ""),
        ("text/html", ""),
        ("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2", OPENMETRICS),
        ("application/vnd.google.protobuf;q=0.6,application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5", OPENMETRICS),
        ("text/plain;version=0.0.4", ""),
    ],
)  # fmt: skip
def test_each_scraper_gets_one_of_two_formats(accept, chosen):
    assert format_for(accept) == chosen


@pytest.mark.parametrize("chosen", FORMATS)
def test_each_format_names_itself(chosen):
    body, media_type = exposition(chosen, [INBOX_LAG.sample(3)], {'ghapp_sweeps_total{org="acme"}': 2.0})
    assert media_type.startswith("application/openmetrics-text" if chosen else "text/plain")
    assert body.endswith(b"# EOF\n") is bool(chosen)
    assert b'ghapp_sweeps_total{org="acme"} 2.0\n' in body
