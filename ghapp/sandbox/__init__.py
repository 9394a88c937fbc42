"""A simulated GitHub with a simulated fleet, for trying ghapp and for its tests. It imports nothing of ghapp."""

from ghapp.sandbox.config import OrgConfig, Pace, PoolConfig, SandboxConfig, pools_of
from ghapp.sandbox.server import SandboxServer

__all__ = ["OrgConfig", "Pace", "PoolConfig", "SandboxConfig", "SandboxServer", "pools_of"]
