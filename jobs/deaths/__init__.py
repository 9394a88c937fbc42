"""How runners died: recorded before anyone takes the pod away, and what surrounded it."""
