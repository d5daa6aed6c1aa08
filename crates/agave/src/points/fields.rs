use crate::BadLine;
use crate::line::{Point, Value};

pub(super) trait Datapoint: Default {
    /// `None` if the struct has no such field, otherwise whether the value was usable.
    fn set_field(&mut self, key: &str, value: impl FnOnce() -> Option<FieldValue>) -> Option<bool>;
}

/// Owned: strings are rare and short.
pub(super) enum FieldValue {
    Int(i64),
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
    let mut unusable = 0;
    for tag in point.tags() {
        let tag = tag.map_err(|reason| point.bad(reason))?;
        datapoint.set_field(tag.key, || tag.value.parse().ok().map(FieldValue::Bool));
    }
    for field in point.fields() {
        let field = field.map_err(|reason| point.bad(reason))?;
        let value = || match field.value().ok()? {
            Value::Int(value) => Some(FieldValue::Int(value)),
            Value::Float(_) => None,
            Value::Bool(value) => Some(FieldValue::Bool(value)),
            Value::Str(text) => Some(FieldValue::Str(text.decode().into_owned())),
        };
        if datapoint.set_field(field.key, value) == Some(false) {
            unusable += 1;
        }
    }
    Ok((datapoint, unusable))
}

/// Declares the structs of datapoints from the lists of their members: documentation, name, type, key. A tag is a member of
/// type `bool`.
macro_rules! datapoints {
    ($(
        $(#[$doc:meta])*
        $name:ident $(in $table:literal)? {
            $($(#[$field_doc:meta])* $field:ident: $ty:ty = $($key:literal)|+,)*
        }
    )*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Default, PartialEq)]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$field_doc])* pub $field: Option<$ty>,)*
        }

        impl Datapoint for $name {
            #[inline]
            fn set_field(&mut self, key: &str, value: impl FnOnce() -> Option<FieldValue>) -> Option<bool> {
                match key {
                    $($($key)|+ => {
                        self.$field = value().and_then(<$ty as FromField>::from_field);
                        Some(self.$field.is_some())
                    })*
                    _ => None,
                }
            }
        }
    )*};
}

pub(super) use datapoints;
