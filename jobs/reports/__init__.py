"""The check runs for people: "Runner health", "Runner queue" and "Runner gate", posted when what they mean changes."""
