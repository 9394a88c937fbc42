"""What a test, or a person who tries things out, can do to the cluster; each module has the controls of one subject."""
