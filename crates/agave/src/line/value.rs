use std::borrow::Cow;

use crate::Reason;

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// `12i`. Agave casts `u64` to `i64`, so a negative number may be a wrapped one.
    Int(i64),
    Float(f64),
    Bool(bool),
    Str(Text<'a>),
}

impl<'a> Value<'a> {
    /// Parses one value, quotes included. [`Reason::BadValue`] includes numbers that do not fit 64
    /// bits.
    pub fn parse(text: &'a str) -> Result<Self, Reason> {
        if let Some(rest) = text.strip_prefix('"') {
            let inner = rest.strip_suffix('"').ok_or(Reason::UnbalancedQuote)?;
            return Ok(Self::Str(Text(inner)));
        }
        match text {
            "true" => return Ok(Self::Bool(true)),
            "false" => return Ok(Self::Bool(false)),
            _ => {}
        }
        let number = match text.strip_suffix(['i', 'u']) {
            Some(digits) => digits.parse().map(Self::Int).ok(),
            None => text.parse().map(Self::Float).ok(),
        };
        number.ok_or(Reason::BadValue)
    }

    /// Booleans are 0 and 1; `None` for strings.
    #[expect(
        clippy::cast_precision_loss,
        reason = "a gauge is an f64; above 2^53 its last digits are lost there anyway"
    )]
    pub fn number(&self) -> Option<f64> {
        match *self {
            Self::Int(value) => Some(value as f64),
            Self::Float(value) => Some(value),
            Self::Bool(value) => Some(f64::from(u8::from(value))),
            Self::Str(_) => None,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Text<'a>(&'a str);

impl<'a> Text<'a> {
    /// With escapes: `\"` stands for `"`.
    pub fn raw(&self) -> &'a str {
        self.0
    }

    /// Without escapes. Allocates only if a quote was escaped.
    pub fn decode(&self) -> Cow<'a, str> {
        if self.0.contains("\\\"") {
            Cow::Owned(self.0.replace("\\\"", "\""))
        } else {
            Cow::Borrowed(self.0)
        }
    }
}

impl PartialEq for Text<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.decode() == other.decode()
    }
}
