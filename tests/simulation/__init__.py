"""The real composition on virtual time: one seed decides everything that happens, so that a failure can be repeated."""
