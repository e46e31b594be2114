"""One conversation: its key, its state machine and the actor that performs it."""
