"""Deliveries of webhooks: which ones GitHub is asked for again."""
