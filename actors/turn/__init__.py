"""One turn: the attempt's state machine and the actor that performs it."""
