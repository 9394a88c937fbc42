"""The address alone, in a browser."""

from __future__ import annotations


async def test_it_leads_to_what_there_is_to_read(http):
    del http.headers["authorization"]
    answer = await http.get("/")
    assert (answer.status_code, answer.headers["location"]) == (303, "docs")
