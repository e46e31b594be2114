"""One test per id of the specification, named after it."""
