"""Reads from the kubelet's sentence what a pod was evicted for. Pure.

Sentences are matched whole, because names of volumes and containers are part of them: a volume may be called
`memory-cache`. Source: kubelet 1.36, `pkg/kubelet/eviction`.
"""

from __future__ import annotations

import re
from enum import StrEnum


class Shortage(StrEnum):
    """What ran short. `OWN_STORAGE`: the pod's own limit; the others: the node's."""

    OWN_STORAGE = "own-storage"
    STORAGE = "storage"
    MEMORY = "memory"
    PIDS = "pids"
    UNKNOWN = ""


_OWN_STORAGE = re.compile(
    r'Usage of EmptyDir volume ".+" exceeds the limit ".+"\..*'
    r"|Pod ephemeral local storage usage exceeds the total limit of containers .+"
    r'|Container .+ exceeded its local ephemeral storage limit ".+"\..*',
    re.DOTALL,
)
_NODE = re.compile(r"The node was low on resource: ([\w-]+)\..*|The node had condition: \[(\w+)\].*", re.DOTALL)
_OF_NODE = {
    "memory": Shortage.MEMORY,
    "MemoryPressure": Shortage.MEMORY,
    "ephemeral-storage": Shortage.STORAGE,
    "inodes": Shortage.STORAGE,
    "DiskPressure": Shortage.STORAGE,
    "pids": Shortage.PIDS,
    "PIDPressure": Shortage.PIDS,
}


def shortage(message: str) -> Shortage:
    """Returns what ran short, by the message of an evicted pod."""
    text = message.strip()
    if _OWN_STORAGE.fullmatch(text):
        return Shortage.OWN_STORAGE
    node = _NODE.fullmatch(text)
    return _OF_NODE.get(node[1] or node[2], Shortage.UNKNOWN) if node else Shortage.UNKNOWN
