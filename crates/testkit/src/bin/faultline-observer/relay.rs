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
const FORWARD_INTERVAL: Duration = Duration::from_millis(100);

/// A sink whose bodies are forwarded while there is a destination. Ends when dropped.
pub struct Relay {
    pub sink: Arc<Sink>,
    destination: Arc<Mutex<Option<String>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    pub fn start(sink: Sink) -> Self {
        let sink = Arc::new(sink);
        let (destination, stop) = (Arc::new(Mutex::new(None)), Arc::new(AtomicBool::new(false)));
        let thread_state = (
            Arc::clone(&sink),
            Arc::clone(&destination),
            Arc::clone(&stop),
        );
        let thread =
            std::thread::spawn(move || forward(&thread_state.0, &thread_state.1, &thread_state.2));
        Self {
            sink,
            destination,
            stop,
            thread: Some(thread),
        }
    }

    /// Sets the address to which pushes are forwarded from now on.
    pub fn set_destination(&self, address: Option<&str>) {
        *self
            .destination
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = address.map(str::to_owned);
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

fn forward(sink: &Sink, destination: &Mutex<Option<String>>, stop: &AtomicBool) {
    let mut forwarded = 0;
    while !stop.load(Ordering::Relaxed) {
        let mut count = 0;
        let arrived = sink.find_map(|arrival| {
            count += 1;
            (count > forwarded).then(|| (arrival.target.clone(), arrival.body.clone()))
        });
        let Some((target, body)) = arrived else {
            std::thread::sleep(FORWARD_INTERVAL);
            continue;
        };
        forwarded += 1;
        let address = destination
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        if let Some(address) = address
            && let Err(error) = http::post(&address, &target, &body)
        {
            eprintln!("not passed on: {error}");
        }
    }
}
