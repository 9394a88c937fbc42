"""Judges the cluster's side: pods, what may be deleted, and phantoms. Pure."""
