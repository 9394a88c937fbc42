"""The mistakes of a configuration as findings: each with its place, what is wrong, and what would be right."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ghapp.doctor.configuration import GROUP
from ghapp.doctor.finding import Finding, warning, wrong
from ghapp.errors import ConfigurationError
from ghapp.settings.lines import line_of

CORRECT_IT = "correct it; docs/configuration.md has what each setting takes"


def of_mistakes(error: ConfigurationError, environ: Mapping[str, str]) -> list[Finding]:
    """Returns a finding for each mistake, in the order of reading; nothing else can be checked with them."""
    toml = _text_of(environ.get("GHAPP_CONFIG"))
    found = [_of(mistake, toml) for mistake in error.mistakes]
    text = "not checked: Redis, roles, GitHub, the cluster and the rest follow once the configuration is right"
    return [*found, warning(GROUP, "all else", text, "correct the mistakes above, then run `ghapp doctor` again")]


def _of(mistake: str, toml: str) -> Finding:
    place, colon, rest = mistake.partition(": ")
    if not colon:
        return wrong(GROUP, "mistakes", mistake, CORRECT_IT)
    line = line_of(toml, place)
    what, semicolon, right = rest.partition("; ")
    text = what if line is None else f"line {line}: {what}"
    return wrong(GROUP, place, text, right if semicolon else CORRECT_IT)


def _text_of(path: str | None) -> str:
    """Returns the file's text; empty if it cannot be read, which is a mistake of its own."""
    try:
        return Path(path).read_text(encoding="utf-8-sig") if path else ""
    except (OSError, ValueError):
        return ""
