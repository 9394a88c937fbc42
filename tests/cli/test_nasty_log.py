"""Names of outsiders in log lines, on a terminal and as JSON: a line each, and no character that is not seen."""

from __future__ import annotations

import json
import re
import subprocess
import sys

from tests.support.nasty_names import NASTY, PLAIN, not_seen

PROGRAM = """
import logging, sys
from ghapp import log
from tests.support.nasty_names import NASTY, PLAIN
log.configure(sys.argv[1])
for name in {"nasty": NASTY, "plain": PLAIN}[sys.argv[2]]:
    log.logger("t").warning("runner lost", runner=name, labels=[name], job={"name": name})
    logging.getLogger("another.library").warning("failed with %s", name)
"""
COLOUR = re.compile("\x1b\\[[0-9]+m")


def logged(log_format, names):
    words = [sys.executable, "-c", PROGRAM, log_format, names]
    return subprocess.run(words, capture_output=True, text=True, check=True).stderr


def test_on_a_terminal_each_line_is_one_and_all_of_it_is_seen():
    nasty, plain = logged("console", "nasty"), logged("console", "plain")
    assert len(nasty.splitlines()) == len(plain.splitlines()) == 2 * len(NASTY)
    assert COLOUR.findall(nasty) == COLOUR.findall(plain), "the colours are ours"
    assert not_seen(COLOUR.sub("", nasty)) == {}


def test_in_json_each_line_is_one_and_has_the_name_itself():
    text = logged("json", "nasty")
    lines = [json.loads(line) for line in text.splitlines()]
    assert not_seen(text) == {}
    assert [line["runner"] for line in lines if "runner" in line] == [*NASTY]
    assert len(lines) == 2 * len(PLAIN)
