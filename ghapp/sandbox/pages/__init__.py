"""What GitHub shows to people: the manifest flow, installations, check runs with their buttons."""
