//! Measures the time to fetch records over a real local connection. The sender adds latency and
//! limits the bandwidth. Requests are pipelined.

use super::{FetchColumn, FetchTable, StoredEstimate, bootstrap_plan};
use crate::{
    args::CompressionArgs,
    codec::{Codec, Coder},
};
use anyhow::{Context, Result, ensure};
use faultline_common::{clock, output::say};
use faultline_stats::block_bootstrap;
use faultline_text::counted;
use itertools::Itertools;
use std::{
    io::{BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
    time::Duration,
};

/// With limited bandwidth the sender waits before each chunk.
const CHUNK_BYTES: usize = 16 << 10;
const MAX_RECORD_COUNTS: usize = 20;
/// A local socket operation that takes longer fails.
const IO_TIMEOUT: Duration = Duration::from_secs(120);

struct Transfer {
    /// By record, counted from the first request.
    restored_after: Vec<Duration>,
    /// Bytes of all bodies, without the length before each body.
    bytes: u64,
}

pub fn measure_fetch(
    codec: Codec,
    dictionary: Option<&[u8]>,
    records: &[&[u8]],
    args: &CompressionArgs,
) -> Result<FetchTable> {
    let records = records.get(..args.fetch as usize).unwrap_or(records);
    say(&format!(
        "fetching {}, {} with each latency",
        counted(records.len() as f64, "record"),
        counted(args.repeats as f64, "time")
    ));
    // Index 2n is latency n without compression, 2n + 1 with it.
    let mut order = (0..2 * args.latencies.len()).collect_vec();
    let mut transfers = order.iter().map(|_| Vec::new()).collect_vec();
    let mut random = fastrand::Rng::with_seed(args.seed);
    for _ in 0..args.repeats {
        random.shuffle(&mut order);
        for index in &order {
            let coder = || {
                (index % 2 == 1)
                    .then(|| Coder::new(codec, dictionary))
                    .transpose()
            };
            let latency = args.latencies[index / 2];
            transfers[*index].push(fetch_all(records, [coder()?, coder()?], latency, args)?);
        }
    }
    let every = records.len().div_ceil(MAX_RECORD_COUNTS);
    let record_counts = (1..=records.len())
        .filter(|count| count.is_multiple_of(every) || *count == records.len())
        .collect_vec();
    let columns = args
        .latencies
        .iter()
        .zip(transfers.chunks(2))
        .map(|(latency, transfers)| {
            fetch_column(*latency, [&transfers[0], &transfers[1]], &record_counts)
        });
    Ok(FetchTable {
        codec: codec.name(),
        records: records.len() as u64,
        in_flight: args.in_flight.into(),
        bandwidth: args.bandwidth.map(|bytes| bytes as u64),
        repeats: args.repeats.into(),
        columns: columns.collect(),
        record_counts: record_counts.iter().map(|count| *count as u64).collect(),
    })
}

/// Needs at least one transfer in each list.
fn fetch_column(
    latency: Duration,
    [plain, compressed]: [&[Transfer]; 2],
    record_counts: &[usize],
) -> FetchColumn {
    let mean = |transfers: &[Transfer]| {
        let mean_at = |index: usize| {
            transfers
                .iter()
                .map(|transfer| transfer.restored_after[index].as_secs_f64())
                .sum::<f64>()
                / transfers.len() as f64
        };
        (0..transfers[0].restored_after.len())
            .map(mean_at)
            .collect_vec()
    };
    let (plain_seconds, compressed_seconds) = (mean(plain), mean(compressed));
    let mut previous = 0.0;
    // An interval needs a value per record. The sum of these is the delay of the last record.
    let mut extra_seconds_per_record = Vec::new();
    for (compressed, plain) in compressed_seconds.iter().zip(&plain_seconds) {
        let delay = compressed - plain;
        extra_seconds_per_record.push(Some(delay - previous));
        previous = delay;
    }
    let records = extra_seconds_per_record.len() as f64;
    let at_counts = |seconds: &[f64]| {
        record_counts
            .iter()
            .map(|count| seconds[count - 1])
            .collect()
    };
    FetchColumn {
        latency_ms: latency.as_nanos() as f64 / 1e6,
        uncompressed_seconds: at_counts(&plain_seconds),
        compressed_seconds: at_counts(&compressed_seconds),
        uncompressed_bytes: plain[0].bytes,
        compressed_bytes: compressed[0].bytes,
        extra_seconds: block_bootstrap::mean(&extra_seconds_per_record, &bootstrap_plan())
            .map(|mean| StoredEstimate::from_estimate(&mean, |mean| mean * records)),
    }
}

fn fetch_all(
    records: &[&[u8]],
    [server_coder, client_coder]: [Option<Coder>; 2],
    latency: Duration,
    args: &CompressionArgs,
) -> Result<Transfer> {
    let listener =
        TcpListener::bind("127.0.0.1:0").context("could not listen on a port of 127.0.0.1")?;
    let client = TcpStream::connect(listener.local_addr()?)
        .context("could not connect to a port of 127.0.0.1")?;
    let (server, _) = listener.accept()?;
    for stream in [&client, &server] {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(IO_TIMEOUT))?;
        stream.set_write_timeout(Some(IO_TIMEOUT))?;
    }
    let in_flight = usize::from(args.in_flight);
    let (answer_sender, delayed_answers) = sync_channel(in_flight);
    thread::scope(|scope| {
        let request_stream = server.try_clone()?;
        let reader = scope.spawn(move || {
            serve(
                request_stream,
                records,
                server_coder,
                latency,
                answer_sender,
            )
        });
        let writer = scope.spawn(move || send_delayed(server, delayed_answers, args.bandwidth));
        let transfer = request_all(&client, records, client_coder, in_flight);
        let _ = client.shutdown(std::net::Shutdown::Both);
        let server_results = [reader.join(), writer.join()];
        let transfer = transfer?;
        for result in server_results {
            result.map_err(|_| anyhow::anyhow!("the serving side panicked"))??;
        }
        Ok(transfer)
    })
}

/// The uptime at which an answer may be sent, and its bytes.
type DelayedAnswer = (Duration, Vec<u8>);

/// A request is a record number; an answer is a length and bytes. Numbers have four bytes.
fn serve(
    stream: TcpStream,
    records: &[&[u8]],
    mut coder: Option<Coder>,
    latency: Duration,
    answer_sender: SyncSender<DelayedAnswer>,
) -> Result<()> {
    let mut reader = BufReader::new(stream);
    let mut number = [0; 4];
    let mut compressed = Vec::new();
    for _ in records {
        reader.read_exact(&mut number)?;
        let record = records
            .get(u32::from_le_bytes(number) as usize)
            .context("no such record")?;
        let body = match &mut coder {
            None => *record,
            Some(coder) => {
                coder.compress(record, &mut compressed)?;
                &compressed
            }
        };
        let mut answer = u32::try_from(body.len())?.to_le_bytes().to_vec();
        answer.extend_from_slice(body);
        // The latency begins after compression, so that it does not hide compression time.
        let send_at = clock::uptime() + latency;
        if answer_sender.send((send_at, answer)).is_err() {
            break;
        }
    }
    Ok(())
}

fn send_delayed(
    mut stream: TcpStream,
    delayed_answers: Receiver<DelayedAnswer>,
    bandwidth: Option<usize>,
) -> Result<()> {
    let chunk_bytes = bandwidth.map_or(usize::MAX, |_| CHUNK_BYTES);
    let mut link_free_at = Duration::ZERO;
    for (send_at, answer) in delayed_answers {
        link_free_at = link_free_at.max(send_at);
        for chunk in answer.chunks(chunk_bytes) {
            if let Some(bandwidth) = bandwidth {
                link_free_at +=
                    Duration::from_secs_f64(chunk.len() as f64 / bandwidth.max(1) as f64);
            }
            thread::sleep(link_free_at.saturating_sub(clock::uptime()));
            stream.write_all(chunk)?;
        }
    }
    Ok(())
}

fn request_all(
    stream: &TcpStream,
    records: &[&[u8]],
    mut coder: Option<Coder>,
    in_flight: usize,
) -> Result<Transfer> {
    let mut writer = stream;
    let mut request = |index| writer.write_all(&(index as u32).to_le_bytes());
    let mut reader = BufReader::with_capacity(1 << 16, stream);
    let started = clock::uptime();
    for index in 0..in_flight.min(records.len()) {
        request(index)?;
    }
    let (mut bytes, mut body, mut restored) = (0, Vec::new(), Vec::new());
    let mut restored_after = Vec::with_capacity(records.len());
    for (index, record) in records.iter().enumerate() {
        let mut length = [0; 4];
        reader
            .read_exact(&mut length)
            .context("the serving side ended")?;
        body.resize(u32::from_le_bytes(length) as usize, 0);
        reader.read_exact(&mut body)?;
        if index + in_flight < records.len() {
            request(index + in_flight)?;
        }
        bytes += body.len() as u64;
        let is_same = match &mut coder {
            None => body == *record,
            Some(coder) => {
                coder.decompress(&body, record.len(), &mut restored)?;
                restored == *record
            }
        };
        ensure!(is_same, "the fetched record is not the requested one");
        restored_after.push(clock::uptime().saturating_sub(started));
    }
    Ok(Transfer {
        restored_after,
        bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::{super::tests::args, *};

    fn fetched(more: &[&str], records: &[&[u8]]) -> FetchTable {
        let args = args(&[&["--in-flight", "4", "--repeats", "2"], more].concat());
        measure_fetch(Codec::named("zlib").unwrap(), None, records, &args).unwrap()
    }

    #[test]
    fn latency_counts_once_per_window_and_bytes_by_codec() {
        let records: Vec<Vec<u8>> = (0..40_u8).map(|fill| vec![fill; 3000]).collect();
        let records: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
        let table = fetched(&["--latencies", "0,20ms"], &records);
        assert_eq!(
            (
                table.record_counts.len(),
                table.record_counts.first(),
                table.record_counts.last()
            ),
            (20, Some(&2), Some(&40))
        );
        let [none, some] = table.columns.as_slice() else {
            panic!("two latencies")
        };
        assert_eq!(none.uncompressed_bytes, 120_000);
        assert!(none.compressed_bytes < 4000 && some.compressed_bytes == none.compressed_bytes);
        // Ten windows of four requests take at least 20 ms each.
        assert!(
            some.uncompressed_seconds.last().unwrap() >= &0.2
                && some.compressed_seconds.last().unwrap() >= &0.2,
            "{some:?}"
        );
        assert!(
            some.uncompressed_seconds
                .windows(2)
                .all(|pair| pair[0] <= pair[1])
        );
    }

    #[test]
    fn a_narrow_link_is_where_compression_saves_time() {
        let records: Vec<Vec<u8>> = (0..30_u8).map(|fill| vec![fill; 20_000]).collect();
        let records: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
        let table = fetched(&["--latencies", "0", "--bandwidth", "1953K"], &records);
        let column = &table.columns[0];
        // 600,000 bytes take 0.3 s at two million bytes a second.
        assert!(
            *column.uncompressed_seconds.last().unwrap() >= 0.3
                && column.compressed_bytes < column.uncompressed_bytes / 10,
            "{column:?}"
        );
        // Invented times: 10 ms a record without compression, and 1 or 2 with it.
        let run = |each: fn(u64) -> u64| {
            let restored_after = (1..=30)
                .map(|record| Duration::from_millis((1..=record).map(each).sum()))
                .collect();
            vec![Transfer {
                restored_after,
                bytes: 0,
            }]
        };
        let difference = super::fetch_column(
            Duration::ZERO,
            [&run(|_| 10), &run(|index| 1 + index % 2)],
            &[30],
        )
        .extra_seconds
        .unwrap();
        assert!(
            difference.low < -0.25 && difference.high < -0.25 && difference.low > -0.27,
            "{difference:?}"
        );
    }
}
