"""The command line's verbs and how they print."""
