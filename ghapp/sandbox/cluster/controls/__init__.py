"""What a test, or somebody who tries things out, can do to the cluster; each module has the levers of one matter."""
