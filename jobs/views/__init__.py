"""What the watch keeps of each namespace: its runner pods, and the objects that ARC keeps for them."""
