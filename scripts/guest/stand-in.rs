//! A stand-in for a validator, with the arguments and thread names of a validator. It runs orders from the FIFO `orders`
//! in its ledger folder, one a line:
//!
//! - `hold MIB`: allocates memory and does not free it;
//! - `read FILE`: reads a file to its end;
//! - `say FILE`: copies a file to the standard output, where a validator logs.

use std::{fs::{File, OpenOptions}, io::{self, BufRead, BufReader, Write}, path::PathBuf, thread};

/// Names of some threads of a validator.
const THREAD_NAMES: [&str; 4] = ["solReplayStage", "solScHandler00", "solMetricsAgent", "solBgAccounts"];

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip_while(|argument| argument != "--ledger");
    let ledger = PathBuf::from(arguments.nth(1).ok_or(io::ErrorKind::InvalidInput)?);
    for name in THREAD_NAMES {
        thread::Builder::new().name(name.to_owned()).spawn(sleep)?;
    }
    // Opened for writing too, so that a writer that closes the FIFO does not end it.
    let orders = OpenOptions::new().read(true).write(true).open(ledger.join("orders"))?;
    thread::Builder::new().name("solAdminRpc".to_owned()).spawn(move || run_orders(orders))?;
    sleep();
    Ok(())
}

fn sleep() {
    loop {
        thread::park();
    }
}

fn run_orders(orders: File) {
    let mut blocks = Vec::new();
    for order in BufReader::new(orders).lines().map_while(Result::ok) {
        let done = match order.split_once(' ') {
            Some(("hold", mib)) => mib.parse::<usize>().map_err(io::Error::other).map(|mib| {
                // The kernel would allocate no pages for zeros before a write.
                (0..mib).for_each(|_| blocks.push(vec![1_u8; 1 << 20]));
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
