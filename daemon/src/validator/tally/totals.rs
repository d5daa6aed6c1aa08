//! Totals of accounts, repair and sockets. Versions differ in these datapoints: a total is absent
//! until its datapoint appears.

use super::{add, delta};
use faultline_agave::points::{AccountsActive, KnownPoint};
use faultline_catalog::metrics::validator as v;
use faultline_catalog::{Metric, Reading, Unit, Value};
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Total {
    EvictionPasses,
    EvictionTime,
    EvictionExamined,
    ReadCacheLoad,
    ReadCacheStore,
    ReadCacheEvict,
    IndexFound,
    IndexMissing,
    DiskFound,
    DiskMissing,
    DiskFoundTime,
    DiskMissingTime,
    BinsScanned,
    ScanTime,
    LoadedWriteCache,
    LoadedReadCache,
    LoadedStorage,
    Flushes,
    FlushTime,
    FlushedBytes,
    RequestsShred,
    RequestsHighestShred,
    RequestsOrphan,
    ShredsRepaired,
    ShredsRecovered,
    ReceiveErrors,
    SendErrors,
}

/// Times are summed in nanoseconds.
const TOTALS: [(&Metric, Option<&str>); 27] = [
    (&v::CACHE_EVICTION_PASSES, None),
    (&v::CACHE_EVICTION_TIME, None),
    (&v::CACHE_EVICTION_EXAMINED, None),
    (&v::READ_CACHE_TIME, Some("load")),
    (&v::READ_CACHE_TIME, Some("store")),
    (&v::READ_CACHE_TIME, Some("evict")),
    (&v::INDEX_LOOKUPS, Some("found")),
    (&v::INDEX_LOOKUPS, Some("missing")),
    (&v::INDEX_DISK_LOOKUPS, Some("found")),
    (&v::INDEX_DISK_LOOKUPS, Some("missing")),
    (&v::INDEX_DISK_TIME, Some("found")),
    (&v::INDEX_DISK_TIME, Some("missing")),
    (&v::INDEX_BINS_SCANNED, None),
    (&v::INDEX_SCAN_TIME, None),
    (&v::ACCOUNTS_LOADED, Some("write_cache")),
    (&v::ACCOUNTS_LOADED, Some("read_cache")),
    (&v::ACCOUNTS_LOADED, Some("storage")),
    (&v::WRITE_CACHE_FLUSHES, None),
    (&v::WRITE_CACHE_FLUSH_TIME, None),
    (&v::WRITE_CACHE_FLUSHED, None),
    (&v::REPAIR_REQUESTS, Some("shred")),
    (&v::REPAIR_REQUESTS, Some("highest_shred")),
    (&v::REPAIR_REQUESTS, Some("orphan")),
    (&v::SHREDS_REPAIRED, None),
    (&v::SHREDS_RECOVERED, None),
    (&v::UDP_BUFFER_ERRORS, Some("receive")),
    (&v::UDP_BUFFER_ERRORS, Some("send")),
];

type Field = fn(&AccountsActive) -> Option<u64>;

const JOBS: [(&str, Field); 5] = [
    ("clean", |a| a.clean),
    ("shrink", |a| a.shrink),
    ("squash_ancient", |a| a.squash_ancient),
    ("flush", |a| a.flush),
    ("hash", |a| a.hash),
];

/// Points arrive up to a push interval and its delay apart. If a job's duration differs more
/// between the validator's clock and ours, the clock was set.
const APART: Duration = Duration::from_secs(20);

#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Job {
    count: Option<u64>,
    /// Start by the validator's clock, in Unix nanoseconds, and its arrival.
    began: Option<(i64, Duration)>,
    took: Duration,
}

impl Job {
    fn count_job(&mut self, count: u64, time: i64, received_at: Duration) {
        let before = self.count.replace(count);
        let began = self.began.take();
        if count > 0 {
            // With overlapping jobs the first start counts, also after one of two ends. The end of
            // one may be lost.
            let goes_on = count > 1 || before > Some(count);
            self.began = began.filter(|_| goes_on).or(Some((time, received_at)));
            return;
        }
        let Some((began, first)) = began else { return };
        let took = time
            .checked_sub(began)
            .and_then(|took| u64::try_from(took).ok())
            .map(Duration::from_nanos);
        // The clock may have been set meanwhile.
        let took = took.filter(|took| took.abs_diff(received_at.saturating_sub(first)) <= APART);
        self.took = self.took.saturating_add(took.unwrap_or_default());
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Totals {
    sums: [Option<u64>; TOTALS.len()],
    jobs: [Job; JOBS.len()],
}

impl Totals {
    pub(super) fn add(&mut self, known: &KnownPoint) {
        match known {
            KnownPoint::CacheTimes(times) => {
                self.sum(Total::EvictionPasses, times.evict_passes);
                self.sum_us(Total::EvictionTime, times.evict_us);
                self.sum(Total::EvictionExamined, times.evict_examined);
            }
            KnownPoint::ReadCache(cache) => {
                self.sum_us(Total::ReadCacheLoad, cache.load_us);
                self.sum(Total::ReadCacheLoad, cache.load_ns);
                self.sum_us(Total::ReadCacheStore, cache.store_us);
                self.sum(Total::ReadCacheStore, cache.store_ns);
                self.sum_us(Total::ReadCacheEvict, cache.evict_us);
            }
            KnownPoint::AccountsIndex(index) | KnownPoint::AccountsIndexStartup(index) => {
                self.sum(Total::IndexFound, index.gets_from_mem);
                self.sum(Total::IndexMissing, index.gets_missing);
                self.sum(Total::DiskFound, index.disk_found);
                self.sum(Total::DiskMissing, index.disk_missing);
                self.sum_us(Total::DiskFoundTime, index.disk_found_us);
                self.sum_us(Total::DiskMissingTime, index.disk_missing_us);
                self.sum(Total::BinsScanned, index.bins_scanned);
                self.sum_us(Total::ScanTime, index.scan_us);
            }
            KnownPoint::AccountsLoads(loads) => {
                self.sum(Total::LoadedWriteCache, loads.from_write_cache);
                self.sum(Total::LoadedWriteCache, loads.from_index_cache);
                self.sum(Total::LoadedReadCache, loads.from_read_cache);
                self.sum(Total::LoadedStorage, loads.from_storage);
            }
            KnownPoint::WriteCacheFlush(flush) => {
                self.sum(Total::Flushes, Some(1));
                self.sum_us(Total::FlushTime, flush.elapsed_us);
                self.sum(Total::FlushedBytes, flush.flushed_bytes);
            }
            KnownPoint::RepairRequests(requests) => {
                self.sum(Total::RequestsShred, requests.shred);
                self.sum(Total::RequestsHighestShred, requests.highest_shred);
                self.sum(Total::RequestsOrphan, requests.orphan);
            }
            KnownPoint::InsertedShreds(shreds) => {
                self.sum(Total::ShredsRepaired, shreds.repaired);
                self.sum(Total::ShredsRecovered, shreds.recovered);
                // Zero requests are reported as no point, but the repair service then reports this
                // point.
                for requests in [
                    Total::RequestsShred,
                    Total::RequestsHighestShred,
                    Total::RequestsOrphan,
                ] {
                    self.sum(requests, Some(0));
                }
            }
            KnownPoint::NetStats(stats) => {
                self.sum(Total::ReceiveErrors, stats.receive_buffer_errors);
                self.sum(Total::SendErrors, stats.send_buffer_errors);
            }
            _ => {}
        }
    }

    /// A background job began or ended at `time`, in Unix nanoseconds, received at the uptime
    /// `received_at`.
    pub(super) fn job(&mut self, active: &AccountsActive, time: i64, received_at: Duration) {
        for (job, (_, count)) in self.jobs.iter_mut().zip(JOBS) {
            if let Some(count) = count(active) {
                job.count_job(count, time, received_at);
            }
        }
    }

    fn sum(&mut self, total: Total, more: Option<u64>) {
        if let (Some(more), Some(cell)) = (more, self.sums.get_mut(total as usize)) {
            add(cell.get_or_insert(0), delta(Some(more)));
        }
    }

    fn sum_us(&mut self, total: Total, more: Option<u64>) {
        let ns = more.map(|us| delta(Some(us)).saturating_mul(1_000));
        if let (Some(ns), Some(cell)) = (ns, self.sums.get_mut(total as usize)) {
            add(cell.get_or_insert(0), ns);
        }
    }

    pub(super) fn merge(&mut self, other: &Totals) {
        for (mine, theirs) in self.sums.iter_mut().zip(other.sums) {
            if let Some(theirs) = theirs {
                add(mine.get_or_insert(0), theirs);
            }
        }
        for (mine, theirs) in self.jobs.iter_mut().zip(other.jobs) {
            mine.count = theirs.count.or(mine.count);
            mine.began = theirs.began.or(mine.began);
            mine.took = mine.took.saturating_add(theirs.took);
        }
    }

    pub(super) fn forget_jobs(&mut self) {
        self.jobs
            .iter_mut()
            .for_each(|job| (job.count, job.began) = (job.count.map(|_| 0), None));
    }

    pub(super) fn readings(&self, fresh: bool, out: &mut Vec<Reading>) {
        for ((metric, label), sum) in TOTALS.into_iter().zip(self.sums) {
            let Some(sum) = sum else { continue };
            let value = if metric.unit == Unit::Seconds {
                Value::Real(sum as f64 / 1e9)
            } else {
                Value::Whole(sum)
            };
            out.push(match label {
                Some(label) => Reading::new(metric, [label.into()], value),
                None => Reading::new(metric, [], value),
            });
        }
        for (job, (name, _)) in self.jobs.iter().zip(JOBS) {
            let Some(count) = job.count else { continue };
            if fresh {
                out.push(Reading::whole(&v::ACCOUNTS_JOBS, [name.into()], count));
            }
            out.push(Reading::real(
                &v::ACCOUNTS_JOB_TIME,
                [name.into()],
                job.took.as_secs_f64(),
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use faultline_agave::line::Point;

    fn known(line: &str) -> KnownPoint {
        KnownPoint::parse(&Point::parse(line.as_bytes()).unwrap())
            .unwrap()
            .unwrap()
            .known
    }

    /// Name, label, value.
    fn count_job(totals: &Totals) -> Vec<(&'static str, String, f64)> {
        let mut readings = Vec::new();
        totals.readings(false, &mut readings);
        let label = |reading: &Reading| {
            reading
                .labels
                .first()
                .map(ToString::to_string)
                .unwrap_or_default()
        };
        readings
            .iter()
            .map(|r| (r.metric.name, label(r), r.value.number().unwrap()))
            .collect()
    }

    #[test]
    fn every_total_is_exported_as_what_it_is_called() {
        for (total, name, label) in [
            (
                Total::ReadCacheEvict,
                "agave_read_cache_seconds_total",
                Some("evict"),
            ),
            (
                Total::DiskMissingTime,
                "agave_accounts_index_disk_lookup_seconds_total",
                Some("missing"),
            ),
            (
                Total::LoadedStorage,
                "agave_accounts_loaded_total",
                Some("storage"),
            ),
            (
                Total::FlushedBytes,
                "agave_write_cache_flushed_bytes_total",
                None,
            ),
            (
                Total::RequestsOrphan,
                "agave_repair_requests_total",
                Some("orphan"),
            ),
            (Total::ShredsRecovered, "agave_shreds_recovered_total", None),
            (
                Total::SendErrors,
                "agave_udp_buffer_errors_total",
                Some("send"),
            ),
        ] {
            let (metric, is) = TOTALS[total as usize];
            assert_eq!((metric.name, is), (name, label));
        }
    }

    #[test]
    fn times_of_the_read_cache_are_read_in_the_unit_that_their_field_names() {
        for line in [
            "accounts_db_store_timings,host_id=A read_only_accounts_cache_load_us=1500000i,read_only_accounts_cache_store_us=250i,read_only_accounts_cache_evict_us=40i 1",
            "accounts_db_store_timings,host_id=A read_only_accounts_cache_load_ns=1500000000i,read_only_accounts_cache_store_ns=250000i,read_only_accounts_cache_evict_us=40i 1",
        ] {
            let mut totals = Totals::default();
            totals.add(&known(line));
            let read_cache = |label: &str, seconds| {
                ("agave_read_cache_seconds_total", label.to_owned(), seconds)
            };
            assert_eq!(
                count_job(&totals),
                [
                    read_cache("load", 1.5),
                    read_cache("store", 0.000_25),
                    read_cache("evict", 0.000_04)
                ]
            );
        }
    }

    #[test]
    fn a_total_is_absent_until_its_datapoint_came_and_no_repair_is_zero_requests() {
        let mut totals = Totals::default();
        assert!(count_job(&totals).is_empty());
        // 2.1 does not say how many bytes a flush wrote.
        totals.add(&known(
            "accounts_db-flush_accounts_cache,host_id=A flush_roots_elapsed=1500000i,num_accounts_saved=4i 1",
        ));
        totals.add(&known(
            "blockstore-insert-shreds,host_id=A num_repair=46i,num_recovered_inserted=2i 1",
        ));
        totals.add(&known(
            "net-stats-validator,host_id=A rcvbuf_errors_delta=5i,sndbuf_errors_delta=-1i 1",
        ));
        let expected = [
            ("agave_write_cache_flushes_total", "", 1.0),
            ("agave_write_cache_flush_seconds_total", "", 1.5),
            ("agave_repair_requests_total", "shred", 0.0),
            ("agave_repair_requests_total", "highest_shred", 0.0),
            ("agave_repair_requests_total", "orphan", 0.0),
            ("agave_shreds_repaired_total", "", 46.0),
            ("agave_shreds_recovered_total", "", 2.0),
            ("agave_udp_buffer_errors_total", "receive", 5.0),
        ];
        assert_eq!(
            count_job(&totals),
            expected.map(|(name, label, value)| (name, label.to_owned(), value))
        );
    }

    #[test]
    fn an_index_that_is_in_memory_has_no_lookups_on_disk_and_both_names_of_a_scan_are_one() {
        let mut totals = Totals::default();
        totals.add(&known(
            "accounts_index,host_id=A count=9i,gets_from_mem=7i,gets_missing=2i 1",
        ));
        let in_memory = [
            ("agave_accounts_index_lookups_total", "found", 7.0),
            ("agave_accounts_index_lookups_total", "missing", 2.0),
        ];
        assert_eq!(
            count_job(&totals),
            in_memory.map(|(name, label, value)| (name, label.to_owned(), value))
        );
        totals.add(&known(
            "accounts_index,host_id=A buckets_scanned=3i,flush_scan_us=1000000i 2",
        ));
        totals.add(&known(
            "accounts_index,host_id=A buckets_scanned=3i,evict_scan_us=500000i 3",
        ));
        let scans = [
            ("agave_accounts_index_bins_scanned_total", 6.0),
            ("agave_accounts_index_scan_seconds_total", 1.5),
        ];
        assert_eq!(
            count_job(&totals)[2..],
            scans.map(|(name, value)| (name, String::new(), value))
        );
    }

    #[test]
    fn both_names_of_what_a_flush_wrote_are_one() {
        let mut totals = Totals::default();
        totals.add(&known(
            "accounts_db-flush_accounts_cache,host_id=A account_bytes_flushed=4i 1",
        ));
        totals.add(&known(
            "accounts_db-flush_accounts_cache,host_id=A account_bytes_stored=3i 2",
        ));
        let flushed = [
            ("agave_write_cache_flushes_total", 2.0),
            ("agave_write_cache_flushed_bytes_total", 7.0),
        ];
        assert_eq!(
            count_job(&totals),
            flushed.map(|(name, value)| (name, String::new(), value))
        );
    }

    #[test]
    fn deltas_add_up_and_those_of_another_tally_too() {
        let mut totals = Totals::default();
        let requests = known(
            "repair_service-my_requests,host_id=A repair-total=9i,shred-count=7i,highest-shred-count=1i,orphan-count=1i 1",
        );
        let loads = known(
            "accounts_db_load_accounts,host_id=A num_loaded_from_write_cache=3i,num_loaded_from_read_cache=2i,num_loaded_from_index_cache=5i,num_loaded_from_index_storage=1i 1",
        );
        (0..3).for_each(|_| totals.add(&requests));
        totals.add(&loads);
        let other = totals.clone();
        totals.merge(&other);
        let expected = [
            ("agave_accounts_loaded_total", "write_cache", 16.0),
            ("agave_accounts_loaded_total", "read_cache", 4.0),
            ("agave_accounts_loaded_total", "storage", 2.0),
            ("agave_repair_requests_total", "shred", 42.0),
            ("agave_repair_requests_total", "highest_shred", 6.0),
            ("agave_repair_requests_total", "orphan", 6.0),
        ];
        assert_eq!(
            count_job(&totals),
            expected.map(|(name, label, value)| (name, label.to_owned(), value))
        );
    }

    /// Field, count, second by the validator's clock, second at which it was heard.
    fn after(points: &[(&str, u64, u64, u64)]) -> f64 {
        let mut totals = Totals::default();
        for (field, count, second, received_at) in points {
            let time = second * 1_000_000_000;
            let KnownPoint::AccountsActive(active) = known(&format!(
                "accounts_db_active,host_id=A {field}={count}i {time}"
            )) else {
                panic!("another kind")
            };
            totals.job(
                &active,
                i64::try_from(time).unwrap(),
                Duration::from_secs(*received_at),
            );
        }
        count_job(&totals).iter().map(|(.., seconds)| seconds).sum()
    }

    #[test]
    fn the_time_of_a_background_job_is_from_its_beginning_to_its_end() {
        assert_eq!(
            after(&[
                ("clean", 1, 100, 110),
                ("flush", 1, 101, 110),
                ("flush", 0, 103, 110),
                ("clean", 0, 130, 130)
            ]),
            32.0
        );
        assert_eq!(
            after(&[
                ("shrink", 1, 100, 110),
                ("shrink", 2, 105, 110),
                ("shrink", 1, 110, 110)
            ]),
            0.0
        );
        let both = [
            ("shrink", 1, 100, 110),
            ("shrink", 2, 105, 110),
            ("shrink", 1, 110, 110),
            ("shrink", 0, 120, 120),
        ];
        assert_eq!(after(&both), 20.0, "one of two ended");
        assert_eq!(
            after(&[
                ("clean", 1, 100, 110),
                ("clean", 1, 200, 210),
                ("clean", 0, 201, 210)
            ]),
            1.0,
            "a lost end"
        );
        assert_eq!(
            after(&[("clean", 0, 100, 110)]),
            0.0,
            "it began before the daemon"
        );
        assert_eq!(
            after(&[("clean", 1, 100, 110), ("clean", 0, 3705, 110)]),
            0.0,
            "the clock was set"
        );
    }
}
