"""The page at ``/``: says what runs here and whether it is ready, and follows that while it is open."""

from functools import cache
from importlib.resources import files

HEADERS = {
    # Nothing but what the page itself holds: no other host is asked, whatever is ever put into it.
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline';"
    " connect-src 'self'; img-src data:",
    "cache-control": "no-cache",
    "x-content-type-options": "nosniff",
}


@cache
def status_page() -> bytes:
    """Return the page as it is in this package."""
    return files("transports.web").joinpath("status.html").read_bytes()
