"""The page at the daemon's address."""

import re

from transports.web import status_page


async def test_a_browser_is_shown_what_runs_here(client, turnkeep):
    async with client.get(turnkeep.url + "/") as response:
        assert response.status == 200
        assert response.headers["Content-Type"].startswith("text/html")
        assert "default-src 'none'" in response.headers["Content-Security-Policy"]
        assert "Turnkeep runs here" in await response.text()


def test_the_page_asks_no_other_host_and_says_no_secret():
    page = status_page().decode()
    assert re.findall(r"(?:https?:)?//[a-z]", page) == []
    assert "/readyz" in page
