use crate::schema::Kind;
use faultline_metrics::Value;
use rusqlite::{
    ToSql,
    types::{Null, ToSqlOutput},
};

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum Number {
    #[default]
    None,
    Whole(i64),
    Real(f64),
}

/// Below this, every integer is exact as a float.
const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;

impl Number {
    /// Uses the column's kind if that is lossless. Nothing for a histogram.
    pub fn of(value: &Value, kind: Kind) -> Self {
        match *value {
            Value::Whole(n) if kind == Kind::Real => Number::real(n as f64),
            Value::Whole(n) => i64::try_from(n).map_or(Number::Real(n as f64), Number::Whole),
            Value::Real(x)
                if kind == Kind::Integer && x.fract() == 0.0 && x.abs() < MAX_EXACT_INTEGER =>
            {
                Number::Whole(x as i64)
            }
            Value::Real(x) => Number::real(x),
            Value::Histogram(_) => Number::None,
        }
    }

    pub fn real(x: f64) -> Self {
        if x.is_nan() {
            Number::None
        } else {
            Number::Real(x)
        }
    }
}

impl ToSql for Number {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match *self {
            Number::None => Ok(ToSqlOutput::from(Null)),
            Number::Whole(n) => Ok(ToSqlOutput::from(n)),
            Number::Real(x) => Ok(ToSqlOutput::from(x)),
        }
    }
}
