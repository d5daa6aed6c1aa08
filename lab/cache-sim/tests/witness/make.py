"""Misses of 1,000 random traces by libCacheSim (PyPI libcachesim 0.3.5), for tests/witness.rs.

    python3 make.py > ../fixtures/misses.txt

With names of policies only these.
"""

import sys


import libcachesim as lcs

TRACES, REQUESTS = 1000, 600
POLICIES = [("fifo", lcs.FIFO), ("lru", lcs.LRU), ("lfu", lcs.LFU), ("arc", lcs.ARC),
            ("s3-fifo", lcs.S3FIFO), ("sieve", lcs.Sieve), ("gdsf", lcs.GDSF)]
# Entries, then bytes.
LIMITS = [(20, False), (40, False), (150, True), (400, True)]
# By bytes, implementations differ in what else they leave open.
BY_BYTES = ["gdsf"]


def size(program):
    """The same sizes as in tests/witness.rs."""
    return 1 + program * program % 17


def programs(seed):
    """The same numbers as in tests/witness.rs: the least of two draws of 100, and a shift in the middle."""
    state = seed
    for at in range(REQUESTS):
        draws = []
        for _ in range(2):
            state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
            draws.append((state >> 33) % 100)
        yield (min(draws) + (50 if at >= REQUESTS // 2 else 0)) % 100


def misses(policy, limit, by_bytes, trace):
    cache = policy(cache_size=limit, hashpower=10)
    request = lcs.Request()
    missed = 0
    for program in trace:
        request.obj_id, request.obj_size = program + 1, size(program) if by_bytes else 1
        missed += not cache.get(request)
    return missed


for name, policy in POLICIES:
    for limit, by_bytes in LIMITS:
        if by_bytes and name not in BY_BYTES or sys.argv[1:] and name not in sys.argv[1:]:
            continue
        found = (misses(policy, limit, by_bytes, programs(seed)) for seed in range(TRACES))
        print(name, limit, "bytes" if by_bytes else "entries", *found)
