"""Events to controllers: published once for each change, and delivered from an outbox until they are accepted.

`publish` appends an event under an id that follows from what happened; `deliver_event` sends it to its pool's URL.
"""
