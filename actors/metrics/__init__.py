"""What is counted of the work that is done, for those who watch it from outside."""
