"""What a browser gets at the daemon's address: pages without a build step and without a network."""

from transports.web.page import status_page

__all__ = ["status_page"]
