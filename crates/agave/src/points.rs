//! Typed datapoints, from the push or the log.
//!
//! Every field is an `Option`, because the fields of a point depend on version, mode and moment. A
//! field with an unusable value (wrong type, or a wrapped `u64` that arrives as a negative number)
//! is `None`.

use crate::{
    BadLine,
    line::{Field, Point, Value},
};

/// Covers 14 minutes with slots of 0.2 s.
const MAX_SLOTS: usize = 4096;

/// The highest count of each slot, for a sum over slots that never falls. A slot is reported again
/// if its block or an ancestor is replaced. Then the sum grows by the excess over the peak.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SlotPeaks {
    /// Slots and their peaks, by the slot modulo [`MAX_SLOTS`]; empty entries are zeros. A slot whose
    /// entry another slot took counts in full if it is reported again.
    peaks: Vec<(u64, u64)>,
}

impl SlotPeaks {
    /// Returns the growth of the sum.
    pub fn add(&mut self, slot: u64, count: u64) -> u64 {
        self.peaks.resize(MAX_SLOTS, (0, 0));
        let index = slot as usize % MAX_SLOTS;
        let (known_slot, peak) = &mut self.peaks[index];
        if *known_slot != slot {
            (*known_slot, *peak) = (slot, 0);
        }
        let excess = count.saturating_sub(*peak);
        *peak = count.max(*peak);
        excess
    }

    /// Adds the slots of `other`. Returns the part of the counts of `other` that did not raise the
    /// sum.
    pub fn merge(&mut self, other: &Self) -> u64 {
        let mut counted_twice = 0_u64;
        for &(slot, count) in other.peaks.iter().filter(|(_, count)| *count > 0) {
            let added = self.add(slot, count);
            counted_twice = counted_twice.saturating_add(count - added);
        }
        counted_twice
    }
}

pub trait Datapoint: Default {
    /// Ignores a key that is not a field. An unusable value leaves the field `None`.
    fn set_field<'v>(&mut self, key: &str, value: impl FnOnce() -> Option<Value<'v>>);
}

pub trait FromValue: Sized {
    fn from_value(value: Value<'_>) -> Option<Self>;
}

impl FromValue for u64 {
    fn from_value(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Int(value) => value.try_into().ok(),
            _ => None,
        }
    }
}

impl FromValue for bool {
    fn from_value(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Bool(value) => Some(value),
            _ => None,
        }
    }
}

impl FromValue for String {
    fn from_value(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Str(text) => Some(text.decode().into_owned()),
            _ => None,
        }
    }
}

impl Datapoint for () {
    fn set_field<'v>(&mut self, _: &str, _: impl FnOnce() -> Option<Value<'v>>) {}
}

fn decode<T: Datapoint>(
    point: &Point<'_>,
    mut on_field: impl FnMut(&Field<'_>),
) -> Result<T, BadLine> {
    let mut datapoint = T::default();
    for tag in point.tags() {
        let tag = tag.map_err(|reason| point.bad_line(reason))?;
        // Each known tag is a boolean.
        datapoint.set_field(tag.key, || tag.value.parse().ok().map(Value::Bool));
    }
    for field in point.fields() {
        let field = field.map_err(|reason| point.bad_line(reason))?;
        datapoint.set_field(field.key, || field.value().ok());
        on_field(&field);
    }
    Ok(datapoint)
}

/// Declares each datapoint once: documentation, name, type, and its members with documentation,
/// name, type and key; without a key, its name is the key. A member is a field or a tag. `in TABLE`
/// names the table in a recording: only the macro of the recording's crate uses it.
macro_rules! datapoints {
    ($(
        $(#[$doc:meta])*
        $name:literal => $kind:ident $(in $table:literal)? {
            $($(#[$field_doc:meta])* $field:ident: $ty:ty $(= $($key:literal)|+)?,)*
        }
    )*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, Default, PartialEq)]
            #[non_exhaustive]
            pub struct $kind {
                $($(#[$field_doc])* pub $field: Option<$ty>,)*
            }

            impl Datapoint for $kind {
                #[inline]
                fn set_field<'v>(&mut self, key: &str, value: impl FnOnce() -> Option<Value<'v>>) {
                    match key {
                        $(key!($field $($($key)|+)?) => self.$field = value().and_then(FromValue::from_value),)*
                        _ => {}
                    }
                }
            }
        )*

        #[derive(Debug, PartialEq)]
        pub enum KnownPoint { $($(#[$doc])* $kind($kind),)* }

        impl KnownPoint {
            pub const NAMES: &'static [&'static str] = &[$($name),*];

            /// `Some(Err(_))` if the fields are malformed, so that the whole line is untrustworthy;
            /// else `None` if the name is not one of [`Self::NAMES`].
            pub fn parse(point: &Point<'_>) -> Option<Result<Self, BadLine>> {
                Self::decode(point, |_| ()).transpose()
            }

            /// Decodes a point and passes each field to `on_field`, in the same pass. `Ok(None)` if
            /// the name is not one of [`Self::NAMES`].
            pub fn decode(
                point: &Point<'_>,
                on_field: impl FnMut(&Field<'_>),
            ) -> Result<Option<Self>, BadLine> {
                match point.name() {
                    $($name => decode(point, on_field).map(|known| Some(Self::$kind(known))),)*
                    _ => decode(point, on_field).map(|()| None),
                }
            }
        }
    };
}

macro_rules! key {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $($key:literal)|+) => {
        $($key)|+
    };
}

mod kinds;
mod recorded;

pub use kinds::*;

#[cfg(test)]
mod tests;
