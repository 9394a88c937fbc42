"""Records in the audit log what commands change in Redis; over HTTP the API does."""

from __future__ import annotations

import getpass
import os

from ghapp.store.audit import AuditEntry, Channel
from ghapp.store.stores import Stores


async def record(stores: Stores, installation: int, action: str, subject: str, result: str, why: str = "") -> None:
    """Records a change under the name of this process's user."""
    entry = AuditEntry(await stores.now(), user_here(), Channel.COMMAND, action, subject, why, result)
    await stores.audit.record(installation, entry)


def user_here() -> str:
    """Returns the name of this process's user."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # the user of a container may have no name
        return f"uid {os.getuid()}"
