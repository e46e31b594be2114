"""What carries: sockets, wire frames, processes and model backends. Imports no storage."""
