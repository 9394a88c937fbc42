"""Stamped pods that are nobody's: look at them, ask GitHub about the few that are left, take them away."""
