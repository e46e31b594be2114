"""The wire of relay links: lines, frames and sockets."""
