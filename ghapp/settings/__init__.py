"""Configuration: secrets and addresses from the environment, policy from one TOML file."""

from ghapp.settings.settings import Settings
from ghapp.settings.tables import Policy, PoolSettings

__all__ = ["Policy", "PoolSettings", "Settings"]
