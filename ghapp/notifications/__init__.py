"""Notifications of people: which conditions are reported, when each opens and closes, and never a storm. Pure.

`conditions` decides that; `event_store` keeps the events to controllers, whose `event_ids` derive from their
content, and the outbox from which they are sent.
"""
