//! Tables with one row for each datapoint. Tables with one row per tick have sums of datapoints.

use faultline_agave::points::KnownPoint;
use std::time::Duration;

pub trait Field: Sized {
    /// `None` for a value from 2^63 on, which no count reaches.
    fn store(&self) -> Option<i64>;
    /// `None` for a number out of range. A `bool` is true for any number but 0.
    fn restore(stored: i64) -> Option<Self>;
}

impl Field for u64 {
    fn store(&self) -> Option<i64> {
        i64::try_from(*self).ok()
    }

    fn restore(stored: i64) -> Option<Self> {
        Self::try_from(stored).ok()
    }
}

impl Field for bool {
    fn store(&self) -> Option<i64> {
        Some(i64::from(*self))
    }

    fn restore(stored: i64) -> Option<Self> {
        Some(stored != 0)
    }
}

pub struct PointSpec {
    pub name: &'static str,
    pub description: &'static str,
    pub fields: &'static [(&'static str, &'static str)],
}

pub struct PointRow {
    pub table: &'static str,
    pub time_unix_ns: i64,
    pub received: Duration,
    /// In the order of the table's fields.
    pub fields: Vec<Option<i64>>,
}

pub trait PointTable: Sized {
    const SPEC: PointSpec;
    fn time_unix_ns(&self) -> i64;
    /// `next` returns the next field, in the table's order.
    fn restore(
        time_unix_ns: i64,
        received: Duration,
        next: &mut dyn FnMut() -> rusqlite::Result<Option<i64>>,
    ) -> rusqlite::Result<Self>;
}

macro_rules! points {
    ($(
        #[doc = $description:literal]
        $(#[doc = $more:literal])*
        $name:literal => $kind:ident in $table:literal { $(
            #[doc = $doc:literal]
            $(#[doc = $detail:literal])*
            $field:ident: $type:ty $(= $key:literal)?,
        )* }
    )*) => {
        $(
            #[doc = $description]
            $(#[doc = $more])*
            ///
            /// A field is `None` if the point did not have it.
            #[derive(Debug, Clone, Default, PartialEq, Eq)]
            pub struct $kind {
                /// The validator's own time, in ns since 1970.
                pub time_unix_ns: i64,
                /// When the daemon received it, since 1970.
                pub received: Duration,
                $(#[doc = $doc] $(#[doc = $detail])* pub $field: Option<$type>,)*
            }

            impl PointTable for $kind {
                const SPEC: PointSpec = PointSpec {
                    name: $table,
                    description: $description,
                    fields: &[$((stringify!($field), $doc)),*],
                };

                fn time_unix_ns(&self) -> i64 {
                    self.time_unix_ns
                }

                fn restore(
                    time_unix_ns: i64,
                    received: Duration,
                    next: &mut dyn FnMut() -> rusqlite::Result<Option<i64>>,
                ) -> rusqlite::Result<Self> {
                    Ok($kind { time_unix_ns, received, $($field: next()?.and_then(<$type as Field>::restore),)* })
                }
            }
        )*

        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Point {
            $(#[doc = $description] $kind($kind),)*
        }

        impl Point {
            /// A point that the validator sent at `time_unix_ns` and the daemon received at
            /// `received`, both since 1970. `None` if recordings have no table for this point.
            pub fn new(known: &KnownPoint, time_unix_ns: i64, received: Duration) -> Option<Self> {
                match known {
                    $(KnownPoint::$kind(point) => Some(Point::$kind($kind {
                        time_unix_ns,
                        received,
                        $($field: point.$field,)*
                    })),)*
                    _ => None,
                }
            }

            pub(crate) fn row(&self) -> PointRow {
                match self {
                    $(Point::$kind(point) => PointRow {
                        table: $table,
                        time_unix_ns: point.time_unix_ns,
                        received: point.received,
                        fields: vec![$(point.$field.as_ref().and_then(Field::store)),*],
                    },)*
                }
            }
        }

        /// Every point table, in the order of `recorded_datapoints!`.
        pub static POINT_TABLES: &[PointSpec] = &[$($kind::SPEC),*];
    };
}

faultline_agave::recorded_datapoints!(points);
