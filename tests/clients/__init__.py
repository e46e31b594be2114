"""Real clients of other people, run against the real daemon."""
