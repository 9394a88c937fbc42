"""Where the App is installed: recorded at the start, regularly, and when a delivery reports a change; and forgotten."""
