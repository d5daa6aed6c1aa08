//! One tick to all sinks.

use faultline_catalog::Tick;
use parking_lot::Mutex;
use std::sync::Arc;

/// Someone who is handed every tick. Called on the tick's thread: it stores or enqueues and returns at once.
pub trait Sink: Send {
    /// Takes the tick; what the sink has no room for it drops and counts itself.
    fn tick(&mut self, tick: &Arc<Tick>);
}

/// The sinks, in the order in which they are told.
#[derive(Default)]
pub struct Hub {
    sinks: Vec<Box<dyn Sink>>,
}

impl Hub {
    pub fn new(sinks: Vec<Box<dyn Sink>>) -> Self {
        Hub { sinks }
    }

    /// Hands the same tick to every sink.
    pub fn publish(&mut self, tick: &Arc<Tick>) {
        for sink in &mut self.sinks {
            sink.tick(tick);
        }
    }
}

/// A value that one thread replaces and others look at; nobody holds the lock longer than it takes to copy a pointer.
#[derive(Debug)]
pub struct Latest<T>(Arc<Mutex<Option<Arc<T>>>>);

impl<T> Clone for Latest<T> {
    fn clone(&self) -> Self {
        Latest(Arc::clone(&self.0))
    }
}

impl<T> Default for Latest<T> {
    fn default() -> Self {
        Latest(Arc::new(Mutex::new(None)))
    }
}

impl<T> Latest<T> {
    /// The newest value; `None` before the first.
    pub fn get(&self) -> Option<Arc<T>> {
        self.0.lock().clone()
    }

    /// Replaces it; the old value is dropped outside the lock.
    pub fn set(&self, value: Option<Arc<T>>) {
        let old = std::mem::replace(&mut *self.0.lock(), value);
        drop(old);
    }
}

impl Sink for Latest<Tick> {
    fn tick(&mut self, tick: &Arc<Tick>) {
        self.set(Some(Arc::clone(tick)));
    }
}
