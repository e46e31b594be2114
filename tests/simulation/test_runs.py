"""
Seeds of the simulation: in each, whatever happens, the books hold.

``SIMULATION_SEED=17 python -m pytest tests/simulation/test_runs.py`` runs that one; ``python -m tests.simulation 17
--trace`` shows what happens in it.
"""

import concurrent.futures
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.world import simulate

ROOT = Path(__file__).parents[2]
ONE = os.environ.get("SIMULATION_SEED")
QUICK = [int(ONE)] if ONE else range(40)
MANY = range(40, 1040)


def explain(seed, violations):
    told = "\n  ".join(violations)
    return f"seed {seed}:\n  {told}\nrepeat it with: {sys.executable} -m tests.simulation {seed} --trace"


@pytest.mark.parametrize("seed", QUICK)
def test_messages_survive_whatever_happens(seed):
    world = simulate(seed)
    assert not world.violations, explain(seed, world.violations)


def _violations(seed):
    return seed, simulate(seed).violations


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(ONE is not None, reason="one seed is asked for")
def test_messages_survive_a_thousand_of_other_runs():
    spawning = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(os.cpu_count(), mp_context=spawning) as pool:
        found = [explain(*run) for run in pool.map(_violations, MANY, chunksize=10) if run[1]]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("seed", [11, 175])
def test_a_seed_is_the_same_run_each_time_and_in_each_process(seed):
    digests = {simulate(seed).digest for _ in range(2)}
    for hashing in ("1", "2"):
        code = f"from tests.simulation.world import simulate; print(simulate({seed}).digest)"
        environment = {**os.environ, "PYTHONHASHSEED": hashing}
        run = subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        )
        digests.add(run.stdout.strip())
    assert len(digests) == 1
    assert simulate(seed + 1000).digest not in digests
