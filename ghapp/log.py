"""Logging with structlog: one event per line, as JSON, or in colours on a terminal.

Events are short and lower-case; what they concern is bound as `delivery`, `installation`, `org`, `runner`, `job`.
No code logs a secret, a token or a payload; `_redact` is the second line of defence.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any, Literal

import structlog

from ghapp.untrusted_text import visible, visible_lines

_SECRET = re.compile(
    r"gh[a-z]_\w{10,}|github_pat_\w+|whsec_[\w+/=]+|ghapp_[\w-]{20,}|eyJ[\w-]+\.[\w-]+\.[\w-]+"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)|(?<=://)[^/\s:@]*:[^/\s@]+(?=@)"
    r"|(?<=--token[ =])\S+|(?<=--jitconfig[ =])\S+",
    re.DOTALL,
)
REDACTED = "[redacted]"


def configure(log_format: Literal["json", "console"] | None, *, quiet: bool = False) -> None:
    """Sets up logging of this process to stderr.

    Args:
        log_format: None: `console` on a terminal, else `json`.
        quiet: True: only warnings, for commands, whose output matters.
    """
    console = log_format == "console" or (log_format is None and sys.stderr.isatty())
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    # A traceback becomes text before redaction, because it may contain a secret.
    ending: list[Any] = [
        structlog.processors.format_exc_info,
        _redact,
        *(
            [_on_one_line, structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
            if console
            else [structlog.processors.JSONRenderer()]
        ),
    ]
    structlog.configure(
        processors=[*shared, _redact, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.ExtraAdder(), _plain],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *ending],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING if quiet else logging.INFO)
    for chatty in ("httpx", "httpx2", "httpcore", "httpcore2", "hishel", "rq", "uvicorn.access"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


def logger(name: str) -> structlog.stdlib.BoundLogger:
    """Returns a logger for a module."""
    bound: structlog.stdlib.BoundLogger = structlog.get_logger(name)
    return bound


@contextmanager
def bound(**facts: str | int) -> Iterator[None]:
    """Adds these fields to every line that is logged in the block."""
    with structlog.contextvars.bound_contextvars(**facts):
        yield


def redact(text: str) -> str:
    """Returns the text without anything that looks like a key, a token or a password."""
    return _SECRET.sub(REDACTED, text)


def _plain(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Drops uvicorn's coloured duplicate of each message."""
    event.pop("color_message", None)
    return event


def _on_one_line(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Makes values visible; a traceback keeps its lines."""
    for key, value in event.items():
        if isinstance(value, str):
            event[key] = visible_lines(value) if key in ("exception", "stack") else visible(value)
        elif (text := repr(value)) != (shown := visible(text)):
            event[key] = shown
    return event


def _redact(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for key, value in event.items():
        if isinstance(value, str):
            event[key] = redact(value)
        elif isinstance(value, bytes):
            event[key] = f"{len(value)} bytes"
    return event
