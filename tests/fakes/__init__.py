"""The far ends that tests talk to: real sockets, scripted behaviour."""
