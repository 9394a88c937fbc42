"""The exit codes of commands and roles, in one place because `ghapp up` reads those of its roles."""

from __future__ import annotations

FAILED = 1
"""A check failed, or GitHub gave no usable answer."""

MISUSED = 2
"""Wrong usage or configuration; of commands, also a Redis or a server that does not answer."""

REDIS_UNAVAILABLE = 75
"""Of a role: Redis did not answer at its start. It may be restarting, so that the role is started again.

`EX_TEMPFAIL` of sysexits.h.
"""

INTERRUPTED = 130
"""Ctrl-C, as in shells."""
