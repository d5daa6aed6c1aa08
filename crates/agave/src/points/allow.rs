//! Datapoints an operator asked for by name.

use std::collections::HashMap;

use crate::BadLine;
use crate::line::{Point, Value};

/// Which fields of which datapoints somebody wants.
#[derive(Debug, Clone, Default)]
pub struct AllowList {
    by_name: HashMap<Box<str>, Vec<Box<str>>>,
}

/// A wanted field of a point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wanted<'a> {
    /// Its key.
    pub field: &'a str,
    /// Its value; `None` if it could not be read.
    pub value: Option<Value<'a>>,
}

impl AllowList {
    /// Wants nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Also wants this field of this datapoint.
    pub fn add(&mut self, name: &str, field: &str) {
        let fields = self.by_name.entry(name.into()).or_default();
        if !fields.iter().any(|known| **known == *field) {
            fields.push(field.into());
        }
    }

    /// Whether nothing is wanted.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Whether any field of the datapoint of this name is wanted.
    pub fn wants(&self, name: &[u8]) -> bool {
        !self.is_empty() && std::str::from_utf8(name).is_ok_and(|name| self.by_name.contains_key(name))
    }

    /// The wanted fields of a point, in the point's order; none if its name is not on the list. A field may come twice
    /// if the point says it twice.
    ///
    /// # Errors
    /// An item is an error where the fields are malformed as text; it is the last.
    pub fn read<'a>(&'a self, point: &Point<'a>) -> impl Iterator<Item = Result<Wanted<'a>, BadLine>> {
        let point = *point;
        let wanted = self.by_name.get(point.name()).map(Vec::as_slice).unwrap_or_default();
        let fields = (!wanted.is_empty()).then(|| point.fields());
        fields.into_iter().flatten().filter_map(move |field| match field {
            Err(reason) => Some(Err(point.bad(reason))),
            Ok(field) if wanted.iter().any(|key| **key == *field.key) => {
                Some(Ok(Wanted { field: field.key, value: field.value().ok() }))
            }
            Ok(_) => None,
        })
    }
}
