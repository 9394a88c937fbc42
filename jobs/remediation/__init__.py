"""The plan, and what it grants: lock, look again by id and by name, remove, request the replacement, record.

Each step is recorded before the next, so that a crash loses none, and repeated without a second effect.
"""
