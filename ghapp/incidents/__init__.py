"""Incidents and history: losses that overlap, and rollups of the past, for display. Nothing is decided from them. Pure.

`loss` is what is shown of one lost runner, `fold` groups losses and steps of the fuses (`fuse_steps`) into an
`incident`, with the `interruptions` that held it up; `history` makes the rollups, and `settled` says when a sweep
changes none of it.
"""
