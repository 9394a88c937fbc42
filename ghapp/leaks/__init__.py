"""Judges leaks: pods with the owner label that no runner uses and no controller claims. Pure."""
