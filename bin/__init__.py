"""The programs: how the parts are composed into a daemon, and the command line."""
