use crate::BadLine;
use crate::line::{Point, Value};

pub(super) trait Datapoint: Default {
    /// `None` if the struct has no such field, otherwise whether the value was usable.
    fn offer(&mut self, key: &str, value: impl FnOnce() -> Option<FieldValue>) -> Option<bool>;
    fn offer_tag(&mut self, _key: &str, _value: &str) {}
}

/// Owned: strings are rare and short.
pub(super) enum FieldValue {
    Int(i64),
    Float(f64),
    Bool(bool),
    Str(String),
}

pub(super) trait FromField: Sized {
    fn from_field(value: FieldValue) -> Option<Self>;
}

impl FromField for u64 {
    /// Negative numbers are wrapped casts.
    fn from_field(value: FieldValue) -> Option<Self> {
        if let FieldValue::Int(value) = value {
            value.try_into().ok()
        } else {
            None
        }
    }
}

impl FromField for f64 {
    /// Rejects infinities and `NaN`, which is printed for 0/0.
    fn from_field(value: FieldValue) -> Option<Self> {
        if let FieldValue::Float(value) = value {
            Some(value).filter(|value| value.is_finite())
        } else {
            None
        }
    }
}

impl FromField for bool {
    fn from_field(value: FieldValue) -> Option<Self> {
        if let FieldValue::Bool(value) = value {
            Some(value)
        } else {
            None
        }
    }
}

impl FromField for String {
    fn from_field(value: FieldValue) -> Option<Self> {
        if let FieldValue::Str(value) = value {
            Some(value)
        } else {
            None
        }
    }
}

pub(super) fn decode<T: Datapoint>(point: &Point<'_>) -> Result<(T, u32), BadLine> {
    let mut datapoint = T::default();
    let mut broken = 0;
    for tag in point.tags() {
        let tag = tag.map_err(|reason| point.bad(reason))?;
        datapoint.offer_tag(tag.key, tag.value);
    }
    for field in point.fields() {
        let field = field.map_err(|reason| point.bad(reason))?;
        let value = || match field.value().ok()? {
            Value::Int(value) => Some(FieldValue::Int(value)),
            Value::Float(value) => Some(FieldValue::Float(value)),
            Value::Bool(value) => Some(FieldValue::Bool(value)),
            Value::Str(text) => Some(FieldValue::Str(text.decode().into_owned())),
        };
        if datapoint.offer(field.key, value) == Some(false) {
            broken += 1;
        }
    }
    Ok((datapoint, broken))
}

macro_rules! datapoint {
    (
        $(#[$doc:meta])*
        $name:ident {
            $($(#[$field_doc:meta])* $field:ident: $ty:ty = $($key:literal)|+,)*
        }
        $(tags { $($(#[$tag_doc:meta])* $tag:ident = $tag_key:literal,)* })?
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Default, PartialEq)]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$field_doc])* pub $field: Option<$ty>,)*
            $($($(#[$tag_doc])* pub $tag: Option<bool>,)*)?
        }

        impl Datapoint for $name {
            #[inline]
            fn offer(&mut self, key: &str, value: impl FnOnce() -> Option<FieldValue>) -> Option<bool> {
                match key {
                    $($($key)|+ => {
                        self.$field = value().and_then(<$ty as FromField>::from_field);
                        Some(self.$field.is_some())
                    })*
                    _ => None,
                }
            }
            $(
            fn offer_tag(&mut self, key: &str, value: &str) {
                match key {
                    $($tag_key => self.$tag = value.parse().ok(),)*
                    _ => {}
                }
            }
            )?
        }
    };
}

pub(super) use datapoint;
