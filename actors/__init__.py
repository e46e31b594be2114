"""Who decides: the actors, their messages and the runtime that carries them. Imports no transport, no storage, no I/O."""
