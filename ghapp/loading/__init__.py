"""Loads from several stores at once what surfaces show: the state of an organization, and what is known of its jobs."""
