"""Writes ../fixtures/amounts.json: intervals of amounts, which cannot be negative.

    python3 lab/stats/tests/witness/amounts.py

Nothing but the standard library: Student's t by integration, every end by bisection of the equation that defines it. Nothing
here is translated from the crate.
"""

import json
import math
import pathlib

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "fixtures"


def mean(values):
    return math.fsum(values) / len(values)


def variance_of_mean(values):
    m = mean(values)
    return math.fsum((v - m) ** 2 for v in values) / (len(values) - 1) / len(values)


def bisect(f, low, high):
    """Where f changes its sign, which it does once."""
    positive = f(low) > 0
    for _ in range(400):
        middle = (low + high) / 2
        if (f(middle) > 0) == positive:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def t_quantile(p, freedom):
    """The upper quantile; t = sqrt(freedom) tan(angle) makes the density a power of a cosine."""

    def above_zero(angle, steps=4000):
        f = lambda a: math.cos(a) ** (freedom - 1)
        width = angle / steps
        inner = math.fsum((4 if i % 2 else 2) * f(i * width) for i in range(1, steps))
        return (f(0) + inner + f(angle)) * width / 3

    whole = above_zero(math.pi / 2)
    angle = bisect(lambda a: above_zero(a) / whole - (2 * p - 1), 1e-9, math.pi / 2 - 1e-9)
    return math.sqrt(freedom) * math.tan(angle)


def over_pairs(values, level):
    m, error = mean(values), math.sqrt(variance_of_mean(values))
    reach = t_quantile((1 + level) / 2, len(values) - 1) * error
    low, high = m - reach, m + reach
    if low < 0 < m:
        low = bisect(lambda x: (m - x) - reach * math.sqrt(x / m), 0, m)
        high = bisect(lambda x: (x - m) - reach * math.sqrt(x / m), m, m * 1e9)
    return [m, low, high]


def ratio(reference, other, level):
    a, b, va, vb = mean(reference), mean(other), variance_of_mean(reference), variance_of_mean(other)
    r = b / a
    na, nb = len(reference) - 1, len(other) - 1
    ra, rb = r * r * va, vb
    freedom = (ra + rb) ** 2 / (ra * ra / na + rb * rb / nb)
    t = t_quantile((1 + level) / 2, freedom)
    fieller = lambda x: (b - x * a) ** 2 - t * t * (vb + x * x * va)
    if fieller(0) < 0:
        # Zero lies in Fieller's interval, so its lower end is below.
        fieller = lambda x: (b - x * a) ** 2 - t * t * (vb * x / r + x * x * va)
        return [r, bisect(fieller, 0, r), bisect(fieller, r, r * 1e9)]
    return [r, bisect(fieller, 0, r), bisect(fieller, r, r * 1e9)]


PAIRS = [[0.1, 0.2, 2.4], [1.0, 1.1, 0.9], [0.001, 3.0, 0.4, 0.2], [0.0, 0.0, 5.0]]
ARMS = [
    ([10.0, 11.0, 12.0], [0.1, 0.4, 9.0]),
    ([10.0, 11.0, 12.0], [20.0, 21.0, 23.0]),
    ([100.0, 103.0, 99.0, 101.0], [0.0, 0.0, 0.0, 7.0]),
    ([5.0, 6.5, 5.5], [0.2, 1.4, 3.1, 0.1]),
]


def main():
    cases = {
        "pairs": [{"values": v, "level": level, "interval": over_pairs(v, level)} for v in PAIRS for level in (0.9, 0.95)],
        "ratios": [{"reference": a, "other": b, "interval": ratio(a, b, 0.95)} for a, b in ARMS],
    }
    (FOLDER / "amounts.json").write_text(json.dumps(cases, indent=1) + "\n")


if __name__ == "__main__":
    main()
