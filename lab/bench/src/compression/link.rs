//! Measures fetch time over a real local connection. The sender adds latency and bandwidth limits;
//! requests are pipelined.

use super::{FetchColumn, FetchTable, Interval, plan};
use crate::{
    args::CompressionArgs,
    codec::{Codec, Coder},
};
use anyhow::{Context as _, Result, ensure};
use faultline_common::{clock, output::say};
use faultline_stats::block;
use faultline_text::counted;
use std::{
    io::{BufReader, Read, Write},
    mem::replace,
    net::{TcpListener, TcpStream},
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
    time::Duration,
};

const CHUNK_BYTES: usize = 16 << 10;
const MAX_STEPS: usize = 20;
/// A local socket operation that takes longer fails.
const IO_TIMEOUT: Duration = Duration::from_secs(120);

/// Time from the start until each record was restored, and the bytes of all answers.
struct Fetched {
    at: Vec<Duration>,
    bytes: u64,
}

pub fn table(
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
    let mut order: Vec<(usize, bool)> = (0..args.latencies.len())
        .flat_map(|latency| [(latency, false), (latency, true)])
        .collect();
    let latencies = args.latencies.iter();
    let mut runs: Vec<[Vec<Fetched>; 2]> = latencies.clone().map(|_| Default::default()).collect();
    let mut random = fastrand::Rng::with_seed(args.seed);
    for _ in 0..args.repeats {
        random.shuffle(&mut order);
        for (latency, compressed) in &order {
            let coder = || {
                compressed
                    .then(|| Coder::new(codec, dictionary))
                    .transpose()
            };
            let coders = [coder()?, coder()?];
            let fetched = fetch(records, coders, args.latencies[*latency], args)?;
            runs[*latency][usize::from(*compressed)].push(fetched);
        }
    }
    let every = records.len().div_ceil(MAX_STEPS).max(1);
    let steps: Vec<usize> = (1..=records.len())
        .filter(|n| n.is_multiple_of(every) || *n == records.len())
        .collect();
    let columns = latencies
        .zip(&runs)
        .map(|(latency, runs)| column(*latency, runs, &steps));
    Ok(FetchTable {
        codec: codec.name(),
        records: records.len() as u64,
        in_flight: args.in_flight.into(),
        bandwidth: args.bandwidth.map(|bytes| bytes as u64),
        repeats: args.repeats.into(),
        columns: columns.collect(),
        steps: steps.iter().map(|step| *step as u64).collect(),
    })
}

fn column(latency: Duration, [uncmp, cmp]: &[Vec<Fetched>; 2], steps: &[usize]) -> FetchColumn {
    let mean = |runs: &[Fetched]| -> Vec<f64> {
        let records = runs.first().map_or(0, |run| run.at.len());
        let seconds = |index: usize| runs.iter().map(move |run| run.at[index].as_secs_f64());
        (0..records)
            .map(|index| seconds(index).sum::<f64>() / runs.len() as f64)
            .collect()
    };
    let (without, with) = (mean(uncmp), mean(cmp));
    let delays = with
        .iter()
        .zip(&without)
        .map(|(with, without)| with - without);
    let differences: Vec<Option<f64>> = delays
        .scan(0.0, |before, delay| {
            Some(Some(delay - replace(before, delay)))
        })
        .collect();
    let n = differences.len() as f64;
    let at_steps = |at: &[f64]| steps.iter().map(|step| at[step - 1]).collect();
    FetchColumn {
        latency_ms: latency.as_secs_f64() * 1e3,
        uncmp: at_steps(&without),
        cmp: at_steps(&with),
        uncmp_bytes: uncmp.first().map_or(0, |run| run.bytes),
        cmp_bytes: cmp.first().map_or(0, |run| run.bytes),
        difference: block::mean(&differences, &plan())
            .map(|mean| Interval::of(&mean, |mean| mean * n)),
    }
}

fn fetch(
    records: &[&[u8]],
    [server_coder, client_coder]: [Option<Coder>; 2],
    latency: Duration,
    args: &CompressionArgs,
) -> Result<Fetched> {
    let listener = TcpListener::bind("127.0.0.1:0").context("a port of this machine")?;
    let client =
        TcpStream::connect(listener.local_addr()?).context("a connection to this machine")?;
    let (server, _) = listener.accept()?;
    for stream in [&client, &server] {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(IO_TIMEOUT))?;
        stream.set_write_timeout(Some(IO_TIMEOUT))?;
    }
    let in_flight = usize::from(args.in_flight);
    let (answer_sender, delayed_answers) = sync_channel(in_flight);
    thread::scope(|scope| {
        let (reading, writing) = (server.try_clone()?, server);
        let served =
            scope.spawn(move || serve(&reading, records, server_coder, latency, &answer_sender));
        let sent = scope.spawn(move || send(writing, &delayed_answers, args.bandwidth));
        let fetched = request_all(&client, records, client_coder, in_flight);
        let _ = client.shutdown(std::net::Shutdown::Both);
        let sides = [served.join(), sent.join()];
        let fetched = fetched?;
        for side in sides {
            side.map_err(|_| anyhow::anyhow!("the serving side panicked"))??;
        }
        Ok(fetched)
    })
}

type DelayedAnswer = (Duration, Vec<u8>);

/// A request is a record number; an answer is a length and bytes.
fn serve(
    stream: &TcpStream,
    records: &[&[u8]],
    mut coder: Option<Coder>,
    latency: Duration,
    answer_sender: &SyncSender<DelayedAnswer>,
) -> Result<()> {
    let mut reader = BufReader::new(stream);
    let mut number = [0; 4];
    let mut packed = Vec::new();
    for _ in records {
        reader.read_exact(&mut number)?;
        let record = records
            .get(u32::from_le_bytes(number) as usize)
            .context("no such record")?;
        let body = match &mut coder {
            None => *record,
            Some(coder) => {
                coder.compress(record, &mut packed)?;
                &packed
            }
        };
        let mut answer = u32::try_from(body.len())?.to_le_bytes().to_vec();
        answer.extend_from_slice(body);
        // The latency begins after compression, so that it does not hide compression time.
        if answer_sender
            .send((clock::uptime() + latency, answer))
            .is_err()
        {
            break;
        }
    }
    Ok(())
}

fn send(
    mut stream: TcpStream,
    delayed_answers: &Receiver<DelayedAnswer>,
    bandwidth: Option<usize>,
) -> Result<()> {
    let mut link_free_at = Duration::ZERO;
    for (at, answer) in delayed_answers {
        link_free_at = link_free_at.max(at);
        for chunk in answer.chunks(if bandwidth.is_some() {
            CHUNK_BYTES
        } else {
            usize::MAX
        }) {
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
) -> Result<Fetched> {
    let mut writer = stream;
    let mut request = |index: usize| writer.write_all(&(index as u32).to_le_bytes());
    let mut reader = BufReader::with_capacity(1 << 16, stream);
    let begun = clock::uptime();
    for index in 0..in_flight.min(records.len()) {
        request(index)?;
    }
    let (mut bytes, mut body, mut restored) = (0, Vec::new(), Vec::new());
    let mut at = Vec::with_capacity(records.len());
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
        let same = match &mut coder {
            None => body == *record,
            Some(coder) => {
                coder.decompress(&body, record.len(), &mut restored)?;
                restored == *record
            }
        };
        ensure!(same, "another record came back than was asked for");
        at.push(clock::uptime().saturating_sub(begun));
    }
    Ok(Fetched { at, bytes })
}

#[cfg(test)]
mod tests {
    use super::{super::tests::args, *};

    fn fetched(more: &[&str], records: &[&[u8]]) -> FetchTable {
        let args = args(&[&["--in-flight", "4", "--repeats", "2"], more].concat());
        table(Codec::named("zlib").unwrap(), None, records, &args).unwrap()
    }

    #[test]
    fn latency_counts_once_per_window_and_bytes_by_codec() {
        let records: Vec<Vec<u8>> = (0..40_u8).map(|fill| vec![fill; 3000]).collect();
        let records: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
        let table = fetched(&["--latencies", "0,20ms"], &records);
        assert_eq!(
            (table.steps.len(), table.steps.first(), table.steps.last()),
            (20, Some(&2), Some(&40))
        );
        let [none, some] = table.columns.as_slice() else {
            panic!("two latencies")
        };
        assert_eq!(none.uncmp_bytes, 120_000);
        assert!(none.cmp_bytes < 4000 && some.cmp_bytes == none.cmp_bytes);
        // Ten windows of four, 20 ms each; less cannot be.
        assert!(
            some.uncmp.last().unwrap() >= &0.2 && some.cmp.last().unwrap() >= &0.2,
            "{some:?}"
        );
        assert!(some.uncmp.windows(2).all(|pair| pair[0] <= pair[1]));
    }

    #[test]
    fn a_narrow_link_is_where_compression_saves_time() {
        let records: Vec<Vec<u8>> = (0..30_u8).map(|fill| vec![fill; 20_000]).collect();
        let records: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
        let table = fetched(&["--latencies", "0", "--bandwidth", "1953K"], &records);
        let column = &table.columns[0];
        // 600,000 bytes at two million a second.
        assert!(
            *column.uncmp.last().unwrap() >= 0.3 && column.cmp_bytes < column.uncmp_bytes / 10,
            "{column:?}"
        );
        // By such times: 10 ms a record without compression, and 1 or 2 with it.
        let run = |each: fn(u64) -> u64| {
            let at = (1..=30)
                .map(|record| Duration::from_millis((1..=record).map(each).sum()))
                .collect();
            vec![Fetched { at, bytes: 0 }]
        };
        let difference = super::column(
            Duration::ZERO,
            &[run(|_| 10), run(|index| 1 + index % 2)],
            &[30],
        )
        .difference
        .unwrap();
        assert!(
            difference.low < -0.25 && difference.high < -0.25 && difference.low > -0.27,
            "{difference:?}"
        );
    }
}
