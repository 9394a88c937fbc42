"""Notifications of people: which conditions they are told of, and when."""
