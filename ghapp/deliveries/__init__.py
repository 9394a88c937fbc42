"""Webhook deliveries: which ones GitHub is asked to send again. Pure.

Which deliveries are missing or late, and what that means for a runner, is in `runners.delivery_lag`.
"""
