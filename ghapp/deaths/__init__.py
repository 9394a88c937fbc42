"""Judges the end of a runner: its cause, and the texts of a post-mortem. Pure."""
