"""Measurements; none of them decides whether the suite passes."""
