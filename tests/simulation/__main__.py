"""``python -m tests.simulation 17 40:60`` runs seeds; ``--trace`` shows what happened in them."""

import argparse
import time

from tests.simulation.world import simulate


def main() -> None:
    """Run the seeds that are named and show what was violated."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seeds", nargs="+", help="a number, or two with a colon between: from and to")
    parser.add_argument("--trace", action="store_true", help="show what happened, and what was logged")
    options = parser.parse_args()
    for part in options.seeds:
        first, _, last = part.partition(":")
        for seed in range(int(first), int(last or int(first) + 1)):
            began = time.perf_counter()
            world = simulate(seed)
            took = time.perf_counter() - began
            if options.trace:
                lines = [(at, *map(str, what)) for at, *what in world.events]
                lines += [(at, "log", level, event, str(fields)) for at, level, event, fields in world.logged]
                for at, *what in sorted(lines, key=lambda line: line[0]):
                    print(f"{at:12.6f}", *what)
            loop = world.simulation.loop
            state = "violated" if world.violations else "holds"
            print(f"seed {seed}: {state}; {took:.2f} s for {loop.time() - 1000:.0f} s, {loop.steps} steps")
            for sentence in world.violations:
                print("   ", sentence)


if __name__ == "__main__":
    main()
