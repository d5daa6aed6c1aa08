use std::fmt;

use thiserror::Error;

/// `SOLANA_METRICS_CONFIG`: `host=<scheme://host:port[/prefix]>,db=<db>,u=<user>,p=<password>`. The
/// `Debug` form hides the password.
#[derive(Default, PartialEq)]
pub struct SolanaMetricsConfig {
    pub host: String,
    pub db: String,
    pub username: String,
    pub password: String,
}

/// Why Agave would refuse the value. Never contains the password.
#[derive(Debug, PartialEq, Error)]
pub enum SolanaMetricsConfigError {
    /// Unset or empty: Agave takes it as "metrics disabled", not as an error.
    #[error("empty")]
    Empty,
    #[error(
        "pair {position} is not `key=value` with exactly one `=` (no value may contain `,` or `=`)"
    )]
    NotAPair { position: usize },
    #[error("pair {position} has an unknown key (known are host, db, u, p)")]
    UnknownKey { position: usize },
    #[error("`{key}` is missing or empty")]
    Missing { key: &'static str },
}

impl SolanaMetricsConfig {
    /// Accepts exactly what Agave accepts. If a key occurs twice, the last one counts.
    pub fn parse(text: &str) -> Result<Self, SolanaMetricsConfigError> {
        if text.is_empty() {
            return Err(SolanaMetricsConfigError::Empty);
        }
        let mut config = Self::default();
        for (position, pair) in (1..).zip(text.split(',')) {
            let (key, value) = pair
                .split_once('=')
                .filter(|(_, value)| !value.contains('='))
                .ok_or(SolanaMetricsConfigError::NotAPair { position })?;
            let field = match key {
                "host" => &mut config.host,
                "db" => &mut config.db,
                "u" => &mut config.username,
                "p" => &mut config.password,
                _ => return Err(SolanaMetricsConfigError::UnknownKey { position }),
            };
            value.clone_into(field);
        }
        for (key, value) in [
            ("host", &config.host),
            ("db", &config.db),
            ("u", &config.username),
            ("p", &config.password),
        ] {
            if value.is_empty() {
                return Err(SolanaMetricsConfigError::Missing { key });
            }
        }
        Ok(config)
    }

    /// The URL that Agave POSTs to. It contains the password. Values are not escaped, as in Agave.
    pub fn write_url(&self) -> String {
        let Self {
            host,
            db,
            username,
            password,
        } = self;
        format!("{host}/write?db={db}&u={username}&p={password}&precision=n")
    }
}

impl fmt::Debug for SolanaMetricsConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SolanaMetricsConfig")
            .field("host", &hide_userinfo(&self.host))
            .field("db", &self.db)
            .field("username", &self.username)
            .finish_non_exhaustive()
    }
}

fn hide_userinfo(url: &str) -> String {
    let (scheme, rest) = url.split_once("//").unwrap_or(("", url));
    let separator = if rest.len() < url.len() { "//" } else { "" };
    match rest.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}{separator}***@{host}"),
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests;
