"""When versions of the runner end (`end_dates`): asked of GitHub daily, and again when it refuses one."""
