"""Records in the audit log what commands change in Redis; over HTTP the API does."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ghapp.store.audit import AuditEntry, ChangeOutcome, Channel
from ghapp.store.stores import Stores


@asynccontextmanager
async def change(
    stores: Stores, installation: int, action: str, subject: str, why: str = ""
) -> AsyncIterator[ChangeOutcome]:
    """Records a change under the name of this process's user, as `AuditLog.change`."""
    entry = AuditEntry(await stores.now(), user_here(), Channel.COMMAND, action, subject, why, "", socket.gethostname())
    async with stores.audit.change(installation, entry) as outcome:
        yield outcome


def user_here() -> str:
    """Returns the name of this process's user."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # the user of a container may have no name
        return f"uid {os.getuid()}"
