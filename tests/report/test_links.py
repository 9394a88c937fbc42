"""The addresses of pages in check runs, notifications and commands."""

from __future__ import annotations

import pytest

from ghapp.notifications.conditions import Topic
from ghapp.notifications.texts import page_of_topic
from ghapp.report.links import PageLinks

KNOWN = PageLinks("https://ghapp.example.com/", "acme")


def test_each_page_has_its_address_below_the_public_address():
    base = "https://ghapp.example.com/orgs/acme"
    assert (KNOWN.overview, KNOWN.incidents, KNOWN.jobs) == (base, f"{base}/incidents", f"{base}/jobs")
    assert (KNOWN.gate, KNOWN.github) == (f"{base}/gate", f"{base}/github")
    assert (KNOWN.runner(7), KNOWN.death("linux-7")) == (f"{base}/runners/7", f"{base}/deaths/linux-7")


def test_the_address_of_a_death_distinguishes_several_deaths_of_a_runner():
    address = KNOWN.death("linux-7", "uid 1.000 137")
    assert address == "https://ghapp.example.com/orgs/acme/deaths/linux-7?end=uid+1.000+137"
    assert PageLinks(None, "acme").death("linux-7", "uid 1.000 137") is None


def test_names_are_quoted():
    assert KNOWN.death("a/b ?#") == "https://ghapp.example.com/orgs/acme/deaths/a%2Fb%20%3F%23"


@pytest.mark.parametrize("base", [None, ""])
def test_without_a_public_address_pages_have_no_address(base):
    links = PageLinks(base, "acme")
    assert {links.overview, links.incidents, links.jobs, links.gate, links.github} == {None}
    assert (links.runner(7), links.death("linux-7")) == (None, None)
    assert set(page_of_topic(links).values()) == {None}


def test_each_topic_of_notifications_has_its_page():
    pages = page_of_topic(KNOWN)
    assert set(pages) == set(Topic)
    assert (pages[Topic.FUSE], pages[Topic.GATE]) == (KNOWN.incidents, KNOWN.gate)
    assert (pages[Topic.UNSERVED], pages[Topic.BLIND]) == (KNOWN.jobs, KNOWN.github)
