"""Who tells people what became of their messages."""
