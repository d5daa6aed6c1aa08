"""Writes ../fixtures/*.json: data, and what NumPy, SciPy, statsmodels and arch say about it.

    python3 -m venv target/witness && target/witness/bin/pip install numpy scipy statsmodels arch
    target/witness/bin/python lab/stats/tests/witness/make.py

Nothing here is translated from the crate, and the crate is not translated from here. Where a library has no function for
what is asked, the definition is written out in the slowest, plainest way: all permutations, all pairs, a root finder.
"""

import fractions
import itertools
import json
import math
import pathlib

import arch.bootstrap
import numpy as np
import scipy
import statsmodels
from scipy import optimize, stats
from statsmodels.stats.multitest import multipletests

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "fixtures"
RANDOM = np.random.default_rng(20250508)


def write(name, what):
    what["made_with"] = {"numpy": np.__version__, "scipy": scipy.__version__, "statsmodels": statsmodels.__version__}
    (FOLDER / f"{name}.json").write_text(json.dumps(what, allow_nan=False).replace('{"name"', '\n{"name"') + "\n")


def plain(values):
    return [None if v is None or math.isnan(v) else float(v) for v in values]


def autoregression(n, rho):
    x = np.empty(n)
    x[0] = RANDOM.normal() / math.sqrt(1 - rho * rho)
    for t in range(1, n):
        x[t] = rho * x[t - 1] + RANDOM.normal()
    return short(x)


def short(values):
    """Few digits, so that the files stay small."""
    return np.round(values, 4)


def with_gaps(values):
    values = [float(v) for v in values]
    for i in RANDOM.choice(len(values), size=len(values) // 7, replace=False):
        values[i] = float("nan")
    return np.array(values)


SERIES = {
    "one value": np.array([3.25]),
    "two values": np.array([2.0, -1.0]),
    "constant": np.full(20, 7.5),
    "ties": np.array([1, 2, 2, 3, 3, 3, 4, 4, 4, 4.0]),
    "normal": short(RANDOM.normal(100, 15, 200)),
    "long tail": short(RANDOM.lognormal(3, 1.5, 500)),
    "counts": RANDOM.negative_binomial(0.4, 0.3, 400).astype(float),
    "bytes": RANDOM.integers(450 * 2**30, 640 * 2**30, 300).astype(float),
    "gaps": with_gaps(short(RANDOM.normal(0, 1, 120))),
    "autoregression": autoregression(600, 0.8),
}


def series():
    cases = []
    for name, values in SERIES.items():
        there = values[~np.isnan(values)]
        limit = 3 * there.mean()
        ps = [0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0]
        case = {
            "name": name,
            "values": plain(values),
            "n": len(there),
            "sum": math.fsum(there),
            "min": there.min(),
            "max": there.max(),
            "mean": math.fsum(there) / len(there),
            "sd": there.std(ddof=1) if len(there) > 1 else None,
            "ps": ps,
            "quantiles": [float(np.quantile(there, p, method="linear")) for p in ps],
            "without_peaks": float(there[there <= limit].mean()) if (there <= limit).any() else None,
            "left_out": int((there > limit).sum()),
            "trailing_5": rolling(values, 5),
            "centred_5": centred(values, 2, 2),
            "centred_4": centred(values, 2, 1),
        }
        if len(there) > 2 and there.min() < there.max():
            counts, edges = np.histogram(there, bins=12)
            case["linear"] = {"edges": edges.tolist(), "counts": counts.tolist()}
            quartiles = np.percentile(there, [25, 75])
            if quartiles[1] > quartiles[0]:
                counts, edges = np.histogram(there, bins="fd")
                # Since 2.0 NumPy takes no width below 1 for integers; these values are floats.
                case["freedman_diaconis"] = {"edges": edges.tolist(), "counts": counts.tolist()}
        cases.append(case)
    write("series", {"cases": cases})


def rolling(values, n):
    out = []
    for i in range(len(values)):
        window = values[max(0, i - n + 1) : i + 1]
        out.append(None if i + 1 < n or np.isnan(window).any() else float(np.mean(window)))
    return out


def centred(values, before, after):
    out = []
    for i in range(len(values)):
        window = values[max(0, i - before) : i + after + 1]
        out.append(None if np.isnan(values[i]) else float(np.nanmean(window)))
    return out


def pearson(a, b):
    """By exact fractions; SciPy loses digits far from zero."""
    a, b = [fractions.Fraction(float(v)) for v in a], [fractions.Fraction(float(v)) for v in b]
    n, ma, mb = len(a), sum(a) / len(a), sum(b) / len(b)
    aa, bb = sum((x - ma) ** 2 for x in a), sum((y - mb) ** 2 for y in b)
    ab = sum((x - ma) * (y - mb) for x, y in zip(a, b))
    r = math.copysign(math.sqrt(ab * ab / (aa * bb)), ab)
    assert n > 1 and abs(r - stats.pearsonr([float(v) for v in a], [float(v) for v in b]).statistic) < 1e-5
    return r


def correlations():
    cases = []
    x = short(RANDOM.normal(size=150))
    pairs = {
        "linear": (x, 3 * x + RANDOM.normal(size=150)),
        "falling": (x, -np.exp(x) + 0.1 * RANDOM.normal(size=150)),
        "ties": (RANDOM.integers(0, 6, 80).astype(float), RANDOM.integers(0, 4, 80).astype(float)),
        "gaps": (with_gaps(x), with_gaps(x**3 + RANDOM.normal(size=150))),
        "far from zero": (1e10 + x, 1e9 - 2 * x + RANDOM.normal(size=150)),
    }
    for name, (a, b) in pairs.items():
        a, b = short(a), short(b)
        both = ~np.isnan(a) & ~np.isnan(b)
        cases.append(
            {
                "name": name,
                "a": plain(a),
                "b": plain(b),
                "pearson": pearson(a[both], b[both]),
            }
        )
    write("correlation", {"cases": cases})


def fieller(a, b, level):
    """All ratios r that a t test of mean(b) - r mean(a) = 0 does not reject, with the degrees of freedom at the estimate."""
    if not b.any():
        return [0.0, 0.0]
    va, vb, r = a.var(ddof=1) / len(a), b.var(ddof=1) / len(b), b.mean() / a.mean()
    freedom = (vb + r * r * va) ** 2 / (vb**2 / (len(b) - 1) + r**4 * va**2 / (len(a) - 1))
    t = stats.t.ppf((1 + level) / 2, freedom)
    if abs(a.mean()) <= t * math.sqrt(va):
        return None

    def off(q):
        return abs(b.mean() - q * a.mean()) - t * math.sqrt(vb + q * q * va)

    step = abs(r) * 1e-3 + 1e-6
    low, high = r - step, r + step
    while off(low) < 0:
        low -= step
    while off(high) < 0:
        high += step
    return [float(optimize.brentq(off, low, r, xtol=1e-14)), float(optimize.brentq(off, r, high, xtol=1e-14))]


def hodges_lehmann(a, b, alpha):
    """The estimate, and the interval from all ways to deal ranks to the arms."""
    differences = sorted(float(y - x) for x in a for y in b)
    n, m = len(a), len(b)
    us = []
    for own in itertools.combinations(range(n + m), m):
        us.append(sum(own) - m * (m - 1) // 2)
    us = np.array(us)
    skip = 0
    while skip + 1 < n * m / 2 and (us <= skip + 1).mean() <= alpha / 2:
        skip += 1
    level = 1 - 2 * (us <= skip).mean()
    return float(np.median(differences)), differences[skip], differences[-1 - skip], float(level)


def rank_sum_p(a, b):
    """All ways to deal the values to the arms, twice the smaller tail."""
    values = np.concatenate([b, a])
    ranks = stats.rankdata(values)
    own = ranks[: len(b)].sum()
    sums = np.array([ranks[list(c)].sum() for c in itertools.combinations(range(len(values)), len(b))])
    return float(min(1, 2 * min((sums <= own + 1e-9).mean(), (sums >= own - 1e-9).mean())))


def arms():
    def normal(*how):
        return short(RANDOM.normal(*how))

    pairs = {
        "three and three": (normal(100, 5, 3), normal(90, 3, 3)),
        "three and five": (normal(100, 5, 3), normal(101, 9, 5)),
        "alike": (normal(100, 0.3, 6), normal(100.4, 0.3, 6)),
        "far apart": (normal(0.85, 0.01, 4), normal(0.02, 0.001, 4)),
        "ties": (np.array([1, 2, 2, 3.0]), np.array([2, 3, 3, 4, 4.0])),
        "zero in one arm": (np.array([85530, 84012, 86111.0]), np.zeros(3)),
        "near zero": (normal(0.2, 1, 5), normal(1, 1, 5)),
        "two and two": (np.array([10.0, 11.0]), np.array([12.0, 14.5])),
        # Hollander and Wolfe (1973), p. 69: permeability of the human chorioamnion; in R's ?wilcox.test.
        "chorioamnion": (
            np.array([1.15, 0.88, 0.90, 0.74, 1.21]),
            np.array([0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46]),
        ),
    }
    cases = []
    for name, (a, b) in pairs.items():
        welch = stats.ttest_ind(b, a, equal_var=False)
        interval = welch.confidence_interval(0.95)
        margin = 0.05
        tied = len(set(a) | set(b)) < len(a) + len(b)
        case = {
            "name": name,
            "reference": a.tolist(),
            "other": b.tolist(),
            "welch": {"t": welch.statistic, "freedom": welch.df, "p": welch.pvalue},
            "difference": [float(interval.low), float(interval.high)],
            "fieller": fieller(a, b, 0.95),
            "u": stats.mannwhitneyu(b, a).statistic,
            "u_p": rank_sum_p(a, b),
            "hodges_lehmann": hodges_lehmann(a, b, 0.05),
            "cliffs_delta": float(np.mean([np.sign(y - x) for x in a for y in b])),
            "equivalence_p": max(
                stats.ttest_ind(b, (1 - margin) * a, equal_var=False, alternative="greater").pvalue,
                stats.ttest_ind(b, (1 + margin) * a, equal_var=False, alternative="less").pvalue,
            )
            if a.mean() > 0
            else None,
        }
        if not tied:
            exact = stats.mannwhitneyu(b, a, method="exact").pvalue
            assert abs(exact - case["u_p"]) < 1e-12, (name, exact, case["u_p"])
        cases.append(case)
    a, b = RANDOM.integers(0, 30, 40).astype(float), RANDOM.integers(3, 33, 45).astype(float)
    large = stats.mannwhitneyu(b, a, method="asymptotic", use_continuity=True)
    large = {"reference": a.tolist(), "other": b.tolist(), "u": large.statistic, "p": large.pvalue}
    write("arms", {"cases": cases, "large": large})


def holm():
    families = [
        [0.01, 0.04, 0.03, 0.005],
        [0.5],
        [0.9, 0.8, 0.7],
        [0.001, 0.001, 0.2, 0.013, 0.049, 0.0499],
        RANDOM.uniform(0, 0.2, 12).tolist(),
    ]
    cases = [{"p": p, "adjusted": multipletests(p, method="holm")[1].tolist()} for p in families]
    write("holm", {"cases": cases})


def politis_white(x):
    """Circular block length: Politis and White (2004), section 3.2, with the constant of Patton, Politis and White (2009)."""
    n, x = len(x), x - x.mean()
    covariance = [float(x[k:] @ x[: n - k]) / n for k in range(n)]
    limit = 2 * math.sqrt(math.log10(n) / n)
    quiet = max(5, math.ceil(math.sqrt(math.log10(n))))
    m = next(
        m for m in range(n) if all(abs(covariance[m + k]) < limit * covariance[0] for k in range(1, quiet + 1))
    )
    big = 2 * max(m, 1)

    def window(t):
        return max(0.0, min(1.0, 2 * (1 - abs(t))))

    lags = range(-big, big + 1)
    g = sum(window(k / big) * abs(k) * covariance[abs(k)] for k in lags)
    spectrum = sum(window(k / big) * covariance[abs(k)] for k in lags)
    d = 4 / 3 * spectrum**2
    return (2 * g * g / d) ** (1 / 3) * n ** (1 / 3), spectrum


def block_length():
    cases = []
    for name, values in {
        "white noise": short(RANDOM.normal(size=1000)),
        "rho 0.5": autoregression(2000, 0.5),
        "rho 0.9": autoregression(4000, 0.9),
        "alternating": autoregression(1500, -0.6),
    }.items():
        # arch takes one lag more and normalises lags by their own ends: near, not equal.
        near = float(arch.bootstrap.optimal_block_length(values)["circular"].iloc[0])
        length, long_run = politis_white(values)
        cases.append({"name": name, "values": values.tolist(), "length": length, "long_run": long_run, "arch": near})
    write("block_length", {"cases": cases})


for make in [series, correlations, arms, holm, block_length]:
    make()
