"""What remembers: the store actor, the schema and one module a family of tables."""
