"""A program that accepts messages until it is killed, and says which ones it has an answer for."""

import asyncio
import sys
from pathlib import Path

from actors.runtime import Failpoints
from tests.storage.box import StoreBox

WRITERS = 16


async def main(directory: str, failpoints: str) -> None:
    """Write from many sides at once; one line for each message answered."""
    box = await StoreBox(Path(directory)).open()
    box.system.failpoints = Failpoints.parse(failpoints)

    async def writer(number: int) -> None:
        n = 0
        while True:
            message_id = f"{number}-{n}"
            await box.accept(message_id, session_key=f"k{number}", message_id=message_id)
            print(message_id, flush=True)
            n += 1

    await asyncio.gather(*(writer(number) for number in range(WRITERS)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
