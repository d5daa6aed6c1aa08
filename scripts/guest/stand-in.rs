//! A stand-in for a validator: its arguments, its threads' names, and nothing of what it does. It obeys orders, one a
//! line, that come through the FIFO `orders` in its ledger folder:
//!
//! - `hold MIB`: takes memory and keeps it;
//! - `read FILE`: reads a file to its end;
//! - `say FILE`: copies a file to its standard output, where a validator logs.

use std::{fs::{File, OpenOptions}, io::{self, BufRead, BufReader, Write}, path::PathBuf, thread};

/// What a validator's threads are called, in part.
const IDLE: [&str; 4] = ["solReplayStage", "solScHandler00", "solMetricsAgent", "solBgAccounts"];

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip_while(|argument| argument != "--ledger");
    let ledger = PathBuf::from(arguments.nth(1).ok_or(io::ErrorKind::InvalidInput)?);
    for name in IDLE {
        thread::Builder::new().name(name.to_owned()).spawn(sleep)?;
    }
    // Also for writing: it shall not end when who gave an order closes it.
    let orders = OpenOptions::new().read(true).write(true).open(ledger.join("orders"))?;
    thread::Builder::new().name("solAdminRpc".to_owned()).spawn(move || obey(orders))?;
    sleep();
    Ok(())
}

fn sleep() {
    loop {
        thread::park();
    }
}

fn obey(orders: File) {
    let mut held = Vec::new();
    for order in BufReader::new(orders).lines().map_while(Result::ok) {
        let done = match order.split_once(' ') {
            Some(("hold", mib)) => mib.parse::<usize>().map_err(io::Error::other).map(|mib| {
                // Not zeros: those would be given without memory behind them.
                (0..mib).for_each(|_| held.push(vec![1_u8; 1 << 20]));
            }),
            Some(("read", file)) => File::open(file).and_then(|mut file| io::copy(&mut file, &mut io::sink())).map(drop),
            Some(("say", file)) => say(file),
            _ => Err(io::ErrorKind::InvalidInput.into()),
        };
        match done {
            Ok(()) => eprintln!("done: {order}"),
            Err(error) => eprintln!("{order}: {error}"),
        }
    }
}

fn say(file: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    io::copy(&mut File::open(file)?, &mut output)?;
    output.flush()
}
