"""The judgement of pods that are stamped and belong to nobody. Pure."""
