"""When versions of the runner end: asked of GitHub daily, and again when it refuses one."""
