"""The reaper of stamped pods: read them, ask GitHub about the few candidates, delete the leaks."""
