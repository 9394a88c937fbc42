"""Notifications of people: which conditions are reported, when each opens and closes, and never a storm. Pure."""
