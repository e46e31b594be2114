"""Who speaks with relay peers: links, what waits for them, and the pure pieces of the relay contract."""
