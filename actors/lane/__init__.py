"""Model lanes: which there are, how their backends do, and which serves next."""
