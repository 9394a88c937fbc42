"""Incidents: losses of runners and fuse positions, grouped for display. Nothing is decided from them."""
