"""Speed of the noise that is safe in floating point, beside numpy's generator, which is not, and OpenDP's.

Run ``python benchmarks/bench_noise.py``; OpenDP is compared where it is installed (``pip install opendp``). Times are
the least processor time of one thread over repeats; every value lies on a grid and its bits come from the kernel.
"""

import argparse

import measure  # pins the threads, so before numpy
import numpy as np

from skdprp import _noise


def ziggurat(values):
    """Draw with the generator of numpy: full floats, from a seed, with no account of rounding."""
    rng, size = np.random.default_rng(), 1 << 14

    def add():
        for start in range(0, values.size, size):
            values[start : start + size] += rng.standard_normal(values[start : start + size].size)

    return add


def load_opendp():
    """Gaussian noise of OpenDP for lists of numbers, as a function."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False))
    return dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=1.0)


def opendp_gaussian(values):
    """Return a call of OpenDP's mechanism, or None where it is not installed."""
    try:
        mechanism = load_opendp()
    except ImportError:
        return None
    values = values.tolist()
    return lambda: mechanism(values)


def main():
    """Print one row for each source of noise."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=1 << 20, help="values drawn at a time")
    parser.add_argument("--repeats", type=int, default=9, help="repeats of each measurement")
    options = parser.parse_args()
    measure.describe_machine()
    values, few = np.zeros(options.size), np.zeros(options.size // 64)
    opendp = opendp_gaussian(few)
    calls = {
        "skdprp, Gaussian": (lambda: _noise.add_gaussian(values, 1.0), values.size, 10),
        "skdprp, Laplace": (lambda: _noise.add_laplace(values, 1.0), values.size, 10),
        "numpy's ziggurat, Gaussian": (ziggurat(values), values.size, None),
    } | ({"OpenDP, Gaussian": (opendp, few.size, None)} if opendp else {})
    speeds = {name: size / measure.seconds(call, options.repeats) / 1e6 for name, (call, size, _) in calls.items()}
    row = measure.table("noise", "million values a second", "goal, at least", "times the speed of the ziggurat")
    for name, speed in speeds.items():
        row(name, speed, calls[name][2], speed / speeds["numpy's ziggurat, Gaussian"])


if __name__ == "__main__":
    main()
