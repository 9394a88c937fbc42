"""Events to controllers: published once for each change, and delivered from an outbox until they are accepted."""
