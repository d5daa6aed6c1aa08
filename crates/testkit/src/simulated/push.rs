//! The server that receives the datapoints.

use crate::{Error, Result, http};
use std::time::Duration;

/// The server that `SOLANA_METRICS_CONFIG` names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    address: String,
    path: String,
}

impl Server {
    /// From the variable's text, `host=http://HOST:PORT,db=D,u=U,p=P`.
    ///
    /// # Errors
    /// [`Error::Malformed`] for anything else, as a validator refuses to start with it.
    pub fn parse(config: &str) -> Result<Self> {
        let malformed = || Error::malformed("no SOLANA_METRICS_CONFIG", config);
        let value = |wanted: &str| {
            let mut pairs = config.split(',').filter_map(|pair| pair.split_once('='));
            pairs
                .find(|(key, _)| *key == wanted)
                .map(|(_, value)| value)
                .ok_or_else(malformed)
        };
        let address = value("host")?
            .strip_prefix("http://")
            .ok_or_else(malformed)?
            .to_owned();
        let path = format!(
            "/write?db={}&u={}&p={}&precision=n",
            value("db")?,
            value("u")?,
            value("p")?
        );
        Ok(Self { address, path })
    }

    /// Sends a body once; it is lost after an error, as with a validator.
    ///
    /// # Errors
    /// No answer within 5 s, or a status other than 2xx.
    pub fn push(&self, body: &str) -> Result<()> {
        let request = http::Request::new("POST", &self.path)
            .body(body.as_bytes())
            .timeout(Duration::from_secs(5));
        let answer = request.send(&self.address)?;
        if (200..300).contains(&answer.status) {
            return Ok(());
        }
        Err(Error::Missing(format!(
            "submit response unsuccessful: {} {}",
            answer.status,
            answer.text()
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::Sink;

    #[test]
    fn a_push_goes_to_the_address_in_the_variable() {
        let sink = Sink::start().unwrap();
        let server = Server::parse(&format!("host={},db=d,u=me,p=secret", sink.url())).unwrap();
        server.push("a,host_id=b c=1i 1\n").unwrap();
        assert_eq!(
            sink.arrivals()[0].target,
            "/write?db=d&u=me&p=secret&precision=n"
        );
        assert_eq!(sink.bodies(), [b"a,host_id=b c=1i 1\n"]);
        assert!(Server::parse("host=http://a:1,db=d,u=me").is_err());
    }
}
