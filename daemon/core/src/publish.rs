use faultline_metrics::Tick;
use parking_lot::Mutex;
use std::sync::Arc;

/// Receives every tick on the sampling thread, so it must not block.
pub trait Sink: Send {
    /// A full sink drops the tick and counts it.
    fn receive(&mut self, tick: &Arc<Tick>);
}

/// A shared value that one thread replaces. The lock is only held to copy a pointer.
#[derive(Debug)]
pub struct Latest<T>(Arc<Mutex<Option<Arc<T>>>>);

impl<T> Clone for Latest<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Default for Latest<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> Latest<T> {
    pub fn get(&self) -> Option<Arc<T>> {
        self.0.lock().clone()
    }

    /// Drops the old value outside the lock.
    pub fn set(&self, value: Option<Arc<T>>) {
        let _old = std::mem::replace(&mut *self.0.lock(), value);
    }
}

impl Sink for Latest<Tick> {
    fn receive(&mut self, tick: &Arc<Tick>) {
        self.set(Some(Arc::clone(tick)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct LocksOnDrop(Latest<Self>, Arc<Mutex<Vec<bool>>>);

    impl Drop for LocksOnDrop {
        fn drop(&mut self) {
            self.1.lock().push(self.0.0.try_lock().is_some());
        }
    }

    #[test]
    fn the_old_value_is_dropped_outside_the_lock() {
        let (latest, was_unlocked) = (Latest::default(), Arc::default());
        let value = LocksOnDrop(latest.clone(), Arc::clone(&was_unlocked));
        latest.set(Some(Arc::new(value)));
        latest.set(None);
        assert_eq!(*was_unlocked.lock(), [true]);
    }
}
