"""
turnkeepd on asyncio's own loop, whose callbacks are measured one by one; at its end the long ones are written down.

``python -m tests.metered_daemon FILE [arguments of turnkeepd]``
"""

import json
import sys
from pathlib import Path

from bin import daemon
from tests.callbacks import metered


def main() -> None:
    """Run the daemon to its end."""
    file = Path(sys.argv[1])
    daemon.loop_factory = lambda: None
    with metered() as meter:
        try:
            daemon.main(sys.argv[2:])
        finally:
            file.write_text(json.dumps({"count": meter.count, "longest": meter.over(0.0)}))


if __name__ == "__main__":
    main()
