"""Misses of 1,000 random traces by libCacheSim (PyPI libcachesim 0.3.5), for tests/witness.rs.

    python3 make.py > ../fixtures/misses.txt
"""

import libcachesim as lcs

TRACES, REQUESTS = 1000, 600
POLICIES = [("fifo", lcs.FIFO), ("lru", lcs.LRU), ("lfu", lcs.LFU), ("arc", lcs.ARC),
            ("s3-fifo", lcs.S3FIFO), ("sieve", lcs.Sieve)]
SIZES = [20, 40]


def programs(seed):
    """The same numbers as in tests/witness.rs: the least of two draws of 100, and a shift in the middle."""
    state = seed
    for at in range(REQUESTS):
        draws = []
        for _ in range(2):
            state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
            draws.append((state >> 33) % 100)
        yield (min(draws) + (50 if at >= REQUESTS // 2 else 0)) % 100


def misses(policy, size, trace):
    cache = policy(cache_size=size, hashpower=10)
    request = lcs.Request()
    missed = 0
    for program in trace:
        request.obj_id, request.obj_size = program + 1, 1
        missed += not cache.get(request)
    return missed


for name, policy in POLICIES:
    for size in SIZES:
        print(name, size, *(misses(policy, size, programs(seed)) for seed in range(TRACES)))
