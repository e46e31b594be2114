"""The one port: HTTP and WebSocket routes, and who may use them."""
