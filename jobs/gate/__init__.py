"""The active shard of each blue/green pool, by the pool's own command or URL."""
