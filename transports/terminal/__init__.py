"""The command line's verbs: each asks the running daemon over /admin and shows the answer."""
