"""What a delivery does: drained from the inbox in batches, a handler for each event; and those that never arrived.

GitHub never delivers a second time by itself, so its delivery log is read, and failed deliveries are requested again.
"""
