"""Help texts, log events, documents, docstrings, comments and names of functions are plain technical English."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator

import click
import pytest

from ghapp.cli.main import main
from tests.manifests.rendered import ROOT

REFUSED = re.compile(
    r"\b(said|told|tells?|whoever|whom|nobody|somebody|forsaken|tended|furnish\w*|heir|in vain|anew"
    r"|mend(s|ed)?|befall|lest|for ever|spared?|struck)\b"
    r"|\bis gone\b|\bare gone\b",
    re.IGNORECASE,
)
"""Words of a private dialect: people search for others."""

QUOTED = re.compile(r"```.*?```|`[^`]*`|\"[^\"]*\"", re.DOTALL)
"""Code, field names and the words of other programs."""

ATTRIBUTE = re.compile(r"^ +\w+: ", re.MULTILINE)
"""The name of a field in the list of a class docstring's fields."""

DOCUMENTS = sorted(
    path.relative_to(ROOT) for pattern in ("*.md", "docs/**/*.md", "manifests/**/*.md") for path in ROOT.glob(pattern)
)


def refused(text: str) -> list[str]:
    return [match[0] for match in REFUSED.finditer(QUOTED.sub("", text))]


def commands(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        for name, each in command.commands.items():
            yield from commands(each, f"{path} {name}")


def log_events() -> Iterator[tuple[str, str]]:
    """Where each event is logged, and its text."""
    for package in ("ghapp", "jobs"):
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if (
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Attribute)
                    and isinstance(node.func.value, ast.Name)
                    and node.func.value.id == "log"
                    and node.args
                    and isinstance(node.args[0], ast.Constant)
                ):
                    yield f"{path.relative_to(ROOT)}:{node.lineno}", str(node.args[0].value)


def prose() -> Iterator[tuple[str, str]]:
    """Where each docstring, comment and function is, and its text or name."""
    for package in ("ghapp", "jobs", "tests"):
        for path in sorted((ROOT / package).rglob("*.py")):
            where, text = path.relative_to(ROOT), path.read_text()
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield f"{where}:{node.lineno}", node.name.replace("_", " ")
                if (
                    isinstance(node, ast.Expr)
                    and isinstance(node.value, ast.Constant)
                    and isinstance(node.value.value, str)
                ):
                    yield f"{where}:{node.lineno}", ATTRIBUTE.sub("", node.value.value)
            for token in tokenize.generate_tokens(io.StringIO(text).readline):
                if token.type == tokenize.COMMENT:
                    yield f"{where}:{token.start[0]}", token.string


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_a_document_is_plain(document):
    assert refused((ROOT / document).read_text()) == []


@pytest.mark.parametrize(
    ("path", "command"), list(commands(main, "ghapp")), ids=lambda each: each if isinstance(each, str) else ""
)
def test_a_help_text_is_plain(path, command):
    texts = [command.help or "", *(each.help or "" for each in command.params if isinstance(each, click.Option))]
    assert [word for text in texts for word in refused(text)] == [], path


def test_log_events_are_plain():
    events = list(log_events())
    assert len(events) > 40
    assert [(where, event) for where, event in events if refused(event)] == []


def test_docstrings_comments_and_names_are_plain():
    texts = list(prose())
    assert len(texts) > 10_000
    found = [(where, word) for where, text in texts for word in refused(text)]
    assert found == []
