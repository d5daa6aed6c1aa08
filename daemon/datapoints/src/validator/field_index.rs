//! Finds the few used fields of a line among its many fields.

const BUCKETS: usize = 64;

/// Indices of keys, in the order of their insertion.
pub struct FieldIndex {
    buckets: [Vec<(Box<str>, usize)>; BUCKETS],
    len: usize,
}

impl Default for FieldIndex {
    fn default() -> Self {
        Self {
            buckets: std::array::from_fn(|_| Vec::new()),
            len: 0,
        }
    }
}

impl FieldIndex {
    pub fn insert(&mut self, key: &str) -> usize {
        self.get(key).unwrap_or_else(|| {
            if let Some(bucket) = self.buckets.get_mut(bucket(key)) {
                bucket.push((key.into(), self.len));
            }
            self.len += 1;
            self.len - 1
        })
    }

    pub fn get(&self, key: &str) -> Option<usize> {
        self.buckets
            .get(bucket(key))?
            .iter()
            .find(|(name, _)| **name == *key)
            .map(|(_, index)| *index)
    }

    pub fn len(&self) -> usize {
        self.len
    }
}

/// A cheap hash of the length and three letters.
fn bucket(key: &str) -> usize {
    let byte = |index: usize| key.as_bytes().get(index).copied().map_or(0, usize::from);
    let len = key.len();
    (len + 3 * byte(0) + 5 * byte(len / 2) + 7 * byte(len.saturating_sub(1))) % BUCKETS
}
