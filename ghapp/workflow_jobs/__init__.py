"""Judges why a queued job waits: one reason for each job, and what to do about it. Pure."""
