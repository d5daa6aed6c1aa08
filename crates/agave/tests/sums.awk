# An independent witness: sums of a few fields of pushed points, counted without this crate.
# Valid for these captures only: no string in them holds a newline, an equals sign or a space.
# Usage: awk -f sums.awk FILE...   (renewed by hand; the output is kept in sums.txt)
BEGIN {
  n = split("loaded-programs-cache-stats hits misses evictions reloads insertions one_hit_wonders;" \
            "replay-slot-stats total_transactions program_cache_us execute_us load_us " \
            "execute_details_create_executor_jit_compile_us;" \
            "bank-forks_set_root tx_count;cost_tracker_stats transaction_count block_cost;" \
            "bank_frozen slot;metrics points_written points_lost;" \
            "accounts_db_store_timings read_only_accounts_cache_hits read_only_accounts_cache_misses", groups, ";")
  for (g = 1; g <= n; g++) {
    m = split(groups[g], words, " ")
    for (w = 2; w <= m; w++) wanted[words[1] "." words[w]] = 1
  }
}
FNR == 1 { file = FILENAME; sub(/.*\//, "", file); files[++count] = file }
{
  lines[file]++
  split($1, head, ",")
  split($2, fields, ",")
  for (f in fields) {
    split(fields[f], pair, "=")
    key = head[1] "." pair[1]
    if (key in wanted) { sums[file, key] += pair[2] + 0 }
  }
}
END {
  for (f = 1; f <= count; f++) {
    print files[f], "lines", lines[files[f]]
    for (key in wanted) printf "%s %s %.0f\n", files[f], key, sums[files[f], key] + 0
  }
}
