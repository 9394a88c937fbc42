"""Judges a new shard: whether it may take over, whether users are affected, and the next steps. Pure."""
