"""Commands in documents are commands."""

import re
import shlex

import click
import pytest

from ghapp.cli.main import main
from tests.manifests.rendered import MANIFESTS, ROOT

PAGES = [
    *MANIFESTS.rglob("*.md"),
    ROOT / "docs" / "kubernetes.md",
    ROOT / "docs" / "kubernetes-reference.md",
    MANIFESTS / "observability" / "alerts.yaml",
    MANIFESTS / "observability" / "dashboard.json",
]
COMMANDS = sorted(
    {(page.name, line) for page in PAGES for line in re.findall(r"`(ghapp [a-z][^`]*)`", page.read_text())}
)


@pytest.mark.parametrize(("page", "line"), COMMANDS, ids=[f"{page} {line}" for page, line in COMMANDS])
def test_it_can_be_typed(page, line):
    _, *words = shlex.split(line.replace(" …", " words"))
    command: click.Command = main
    while words and isinstance(command, click.Group):
        command = command.commands[words.pop(0)]
    options = {name for each in command.params for name in each.opts}
    assert {word for word in words if word.startswith("--")} <= options
    required = {
        name for each in command.params if isinstance(each, click.Option) and each.required for name in each.opts
    }
    assert not words or required <= set(words)


def test_there_are_some():
    assert len(COMMANDS) > 10
