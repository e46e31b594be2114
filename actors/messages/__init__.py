"""What can be said to whom: one module per receiver."""
