//! Forwards pushes to the daemon while it runs.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use faultline_testkit::{http, sink::Sink};

/// Interval at which new pushes are forwarded.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A sink whose bodies are forwarded while there is a destination. Ends when dropped.
pub struct Relay {
    pub sink: Arc<Sink>,
    to: Arc<Mutex<Option<String>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    pub fn start(sink: Sink) -> Self {
        let sink = Arc::new(sink);
        let (to, stop) = (Arc::new(Mutex::new(None)), Arc::new(AtomicBool::new(false)));
        let of_thread = (Arc::clone(&sink), Arc::clone(&to), Arc::clone(&stop));
        let thread = std::thread::spawn(move || pass_on(&of_thread.0, &of_thread.1, &of_thread.2));
        Relay {
            sink,
            to,
            stop,
            thread: Some(thread),
        }
    }

    /// Sets the address to which pushes are forwarded from now on.
    pub fn to(&self, address: Option<&str>) {
        *self.to.lock().unwrap_or_else(PoisonError::into_inner) = address.map(str::to_owned);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            eprintln!("the relay's thread panicked");
        }
    }
}

fn pass_on(sink: &Sink, to: &Mutex<Option<String>>, stop: &AtomicBool) {
    let mut next = 0;
    while !stop.load(Ordering::Relaxed) {
        let mut place = 0;
        let arrived = sink.find_map(|arrival| {
            place += 1;
            (place > next).then(|| (arrival.target.clone(), arrival.body.clone()))
        });
        let Some((target, body)) = arrived else {
            std::thread::sleep(LOOK_EVERY);
            continue;
        };
        next += 1;
        let address = to.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(address) = address
            && let Err(error) = http::post(&address, &target, &body)
        {
            eprintln!("not passed on: {error}");
        }
    }
}
