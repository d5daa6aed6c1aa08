#!/usr/bin/env python3
"""Reads the fixtures of Alpenglow without the project's code, and writes what they mean as expected.json.

    read.py FOLDER
"""

import json
import pathlib
import re
import statistics
import sys
from collections import Counter

MARKER = [2**64 - 1] * 3
MICROS = 1e6


def result(path):
    return json.loads(path.read_text()).get("result")


def accounts(votes):
    return [(a, False) for a in votes["current"]] + [(a, True) for a in votes["delinquent"]]


def own_account(votes, identity):
    """The account that votes: current before delinquent, then the newest vote."""
    own = [(a, late) for a, late in accounts(votes) if a["nodePubkey"] == identity]
    return max(own, key=lambda of: (not of[1], of[0]["lastVote"]))


def earned(account, epoch, migration_epoch):
    """(credits of Tower, lamports) of an epoch; None where nothing was earned.

    Entries before the marker are credits, entries after it are lamports. Without a marker the epoch decides.
    """
    entries = account["epochCredits"]
    if MARKER in entries:
        at = entries.index(MARKER)
    else:
        at = sum(migration_epoch is None or e <= migration_epoch for e, _, _ in entries)
    halves = entries[:at], [entry for entry in entries[at:] if entry != MARKER]
    return tuple(next((end - begin for e, end, begin in half if e == epoch), None) for half in halves)


def per_stake_of_best(votes, epoch, account, migration_epoch):
    """Lamports per stake against the best account that has at least the median stake."""
    stakes = [a["activatedStake"] for a, _ in accounts(votes)]
    rate = lambda of: (earned(of, epoch, migration_epoch)[1] or 0) / of["activatedStake"]
    best = max(rate(a) for a, _ in accounts(votes) if a["activatedStake"] >= statistics.median(stakes))
    return rate(account) / best


def distances(votes):
    """How far each vote account is behind the newest of all in the same answer."""
    newest = {k: max(a[k] for a, _ in accounts(votes)) for k in ("lastVote", "rootSlot")}
    return {
        a["votePubkey"]: {
            "reward": newest["lastVote"] - a["lastVote"],
            "finalization": newest["rootSlot"] - a["rootSlot"],
        }
        for a, _ in accounts(votes)
    }


def migration_epoch(folder):
    certificate = result(folder / "getAgGenesisCert.json")
    return certificate and certificate["block"]["slot"] // result(folder / "getEpochInfo.json")["slotsInEpoch"]


def votes_of(folder, identity):
    votes = result(folder / "getVoteAccounts.json")
    epoch = result(folder / "getEpochInfo.json")["epoch"]
    migrated = migration_epoch(folder)
    account, delinquent = own_account(votes, identity)
    this, before = earned(account, epoch, migrated), earned(account, epoch - 1, migrated)
    found = {
        "identity": identity,
        "vote_account": account["votePubkey"],
        "delinquent": delinquent,
        "epoch": epoch,
        "last_vote": account["lastVote"],
        "root_slot": account["rootSlot"],
        "commission_percent": account["inflationRewardsCommissionBps"] / 100,
        "activated_stake_sol": account["activatedStake"] / 1e9,
        "credits": {"this_epoch": this[0], "previous_epoch": before[0]},
        "reward_lamports": {"this_epoch": this[1], "previous_epoch": before[1]},
    }
    if migrated:
        found["reward_per_stake_of_best"] = per_stake_of_best(votes, epoch, account, migrated)
        found["certificate_distance_slots"] = distances(votes)[account["votePubkey"]]
    return found


def signs(folder):
    """Each sign of the protocol that the answers and the pushed lines of this phase show; None proves nothing."""
    votes = result(folder / "getVoteAccounts.json")
    info = result(folder / "getEpochInfo.json")
    lines = folder / "pushed.lp"
    names = {name for name, _, _, _ in points(lines)} if lines.exists() else set()
    most = max(
        (end - begin for a, _ in accounts(votes) for e, end, begin in a["epochCredits"] if e == info["epoch"]),
        default=0,
    )
    slots = info["slotIndex"] + 1
    certificate = result(folder / "getAgGenesisCert.json")
    return {
        "certificate_genesis_slot": certificate and certificate["block"]["slot"],
        "event_handler_points": "event_handler_stats" in names or None,
        "marker": any(MARKER in a["epochCredits"] for a, _ in accounts(votes)) or None,
        "credits_above_16_a_slot": most > 16 * slots or None,
    }


def health(path):
    answer = json.loads(path.read_text())
    if "error" not in answer:
        return {"status": answer["result"]}
    return {"status": "unhealthy", "slots_behind": answer["error"]["data"]["numSlotsBehind"]}


def value(text):
    if text.startswith('"'):
        return text[1:-1]
    return text == "true" if text in ("true", "false") else int(text.rstrip("i"))


def points(path):
    """(name, tags, fields, timestamp) of each line. No text in these files has an escape."""
    for line in path.read_text().splitlines():
        head, fields, timestamp = re.fullmatch(r"(\S+) (.*) (\d+)", line).groups()
        name, *tags = head.split(",")
        pairs = re.findall(r'([^=,]+)=("[^"]*"|[^,]+)', fields)
        yield name, dict(t.split("=") for t in tags), {k: value(v) for k, v in pairs}, int(timestamp)


def slot_outcomes(tracked):
    """Each slot counts by its first point: a later one of the same slot begins again at zero."""
    missed, lateness, finalization, seen = Counter(), Counter(), {"fast": [], "slow": []}, set()
    for fields in tracked:
        slot, final = fields["slot"], fields.get("finalized")
        if slot in seen or final is None:
            continue
        seen.add(slot)
        finalization["fast" if fields["is_fast_finalization"] else "slow"].append(final / MICROS)
        vote = fields.get("vote_notarize")
        if vote is None:
            missed["skipped" if "vote_skip" in fields else "none"] += 1
        else:
            lateness[max(0, vote - final) / MICROS] += 1
            missed["late"] += vote > final
    return {
        "vote_missed": missed,
        "vote_lateness_seconds": {str(k): n for k, n in lateness.items()},
        "finalization_seconds": {
            path: {"count": len(all), "sum": round(sum(all), 6)} for path, all in finalization.items()
        },
    }


def pushed(path):
    of = {}
    for name, _, fields, _ in points(path):
        of.setdefault(name, []).append(fields)
    total = lambda name, field: sum(fields[field] for fields in of.get(name, []))
    found = {
        "lines": {name: len(lines) for name, lines in of.items()},
        "newest_frozen_slot": max((f["slot"] for f in of.get("bank_frozen", [])), default=None),
        "newest_optimistic_slot": max((f["slot"] for f in of.get("optimistic_slot", [])), default=None),
        "program_cache": {k: total("loaded-programs-cache-stats", k) for k in ("hits", "misses", "evictions")},
        "block_transactions": total("cost_tracker_stats", "transaction_count"),
        "replayed_transactions": total("replay-slot-stats", "total_transactions"),
        "bank_switches": len(of.get("blockstore_switch_bank", [])),
        "read_cache_seconds": {
            k: round(total("accounts_db_store_timings", f"read_only_accounts_cache_{k}_ns") / 1e9, 9)
            for k in ("load", "store")
        },
        "migration_slot": next((f["migration_slot"] for f in of.get("migration-started", [])), None),
        "genesis_slot": next((f["genesis_slot"] for f in of.get("migration-complete", [])), None),
    }
    if "event_handler_stats" not in of:
        return found
    sent, events = Counter(), Counter()
    for fields in of["event_handler_sent_vote_count"]:
        sent[fields["vote"]] += fields["count"]
    for fields in of["event_handler_received_event_count_and_timing"]:
        events[fields["event"]] += fields["count"]
    kinds = ("finalize", "finalize_fast", "notarize", "notarize_fallback", "skip", "genesis")
    handovers = Counter(
        "sad" if f["leader_handover_sad"] else "fast" if f["leader_handover_fast"] else "slow"
        for f in of["slot-metrics"]
    )
    return found | slot_outcomes(of["event_handler_slot_tracking"]) | {
        "votes_sent": sent,
        "votor_events": events,
        "certificates": {
            side: {k: total(f"consensus_pool_{name}_certs", k) for k in kinds}
            for side, name in (("built", "generated"), ("received", "ingested"))
        },
        "standstill": of["consensus_pool_service"][-1]["in_standstill_bool"],
        "leader_handovers": handovers,
        "leader_windows_missed": total("consensus_pool_service", "parent_ready_missed_window"),
    }


def admission(path):
    status = result(path)
    reason = status["next_epoch_vat_failure_reason"]
    balance, required = next(iter(reason.values())) if isinstance(reason, dict) else (None, None)
    return {
        "this_epoch": status["in_current_epoch_vat"],
        "next_epoch": reason is None,
        "reason": next(iter(reason)) if isinstance(reason, dict) else reason,
        "shortfall_sol": None if required is None else (required - balance) / 1e9,
    }


def main(folder):
    index = json.loads((folder / "index.json").read_text())
    expected = {"phases": {}, "events": {}, "admin": {}, "variants": {}}
    for phase in index["phases"]:
        at = folder / phase["name"]
        slots = {c: result(at / f"getSlot-{c}.json") for c in ("processed", "confirmed", "finalized")}
        identity = result(at / "getIdentity.json")["identity"]
        twin = result(folder / "variants/getIdentity-two-vote-accounts.json")["identity"]
        expected["phases"][phase["name"]] = {
            "protocol": phase["protocol"],
            "signs": signs(at),
            "slots": slots,
            "health": health(at / "getHealth.json"),
            "own": votes_of(at, identity),
            "of_the_identity_with_two_vote_accounts": votes_of(at, twin),
            "balance_sol": {
                of: result(at / f"getBalance-{of}.json")["value"] / 1e9 for of in ("identity", "vote-account")
            },
        }
        if phase["protocol"] == "alpenglow":
            votes = result(at / "getVoteAccounts.json")
            expected["phases"][phase["name"]]["certificate_distance_slots"] = distances(votes)
        if (at / "pushed.lp").exists():
            expected["phases"][phase["name"]]["pushed"] = pushed(at / "pushed.lp")
    for path in sorted((folder / "events").glob("*.lp")):
        expected["events"][path.name] = pushed(path)
    for path in sorted((folder / "admin").glob("*.json")):
        expected["admin"][path.name] = admission(path)
    for path in sorted((folder / "variants").glob("getHealth-*.json")):
        expected["variants"][path.name] = health(path)
    two = "getVoteAccounts-two-current.json"
    account, delinquent = own_account(result(folder / "variants" / two), twin)
    expected["variants"][two] = {"vote_account": account["votePubkey"], "delinquent": delinquent}
    text = json.dumps(expected, indent=1, sort_keys=True)
    (folder / "expected.json").write_text(text + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(pathlib.Path(sys.argv[1]))
