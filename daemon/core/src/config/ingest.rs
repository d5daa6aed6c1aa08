use super::Ingest;
use faultline_agave::config::SolanaMetricsConfig;
use std::ffi::OsStr;

/// Set by the service unit, in the format of the validator's `SOLANA_METRICS_CONFIG`.
pub const ENV_VARIABLE: &str = "FAULTLINE_INGEST_CONFIG";

impl Ingest {
    /// Uses credentials from the environment if none are configured. The packages generate them.
    /// Credentials disable `allow_users`.
    ///
    /// # Errors
    /// The variable is malformed. The message omits the password.
    pub fn set_default_credentials(&mut self, value: Option<&OsStr>) -> Result<(), String> {
        let Some(value) = value.filter(|_| self.credentials.is_none()) else {
            return Ok(());
        };
        let config = value
            .to_str()
            .ok_or_else(|| format!("{ENV_VARIABLE}: not UTF-8; see /etc/faultline/ingest.env"))?;
        let config = SolanaMetricsConfig::parse(config)
            .map_err(|error| format!("{ENV_VARIABLE}: {error}; see /etc/faultline/ingest.env"))?;
        self.credentials = Some(config.into());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Credentials, *};

    #[test]
    fn environment_credentials_apply_where_the_configuration_has_none() {
        let settled = |mut ingest: Ingest, value: &str| {
            ingest
                .set_default_credentials(Some(OsStr::new(value)))
                .map(|()| ingest.credentials.map(|found| found.user))
        };
        let good = "host=http://127.0.0.1:9913,db=faultline,u=them,p=secret";
        assert_eq!(
            settled(Ingest::default(), good),
            Ok(Some("them".to_owned()))
        );
        let own = Credentials {
            db: "d".to_owned(),
            user: "own".to_owned(),
            password: "p".to_owned(),
        };
        let own = Ingest {
            credentials: Some(own),
            ..Ingest::default()
        };
        assert_eq!(settled(own, good), Ok(Some("own".to_owned())));
        for bad in ["", "p=secret", "host=x,db=d,u=u,p=secret=", "secret"] {
            let refused = settled(Ingest::default(), bad).unwrap_err();
            assert!(
                refused.contains(ENV_VARIABLE) && !refused.contains("secret"),
                "{refused}"
            );
        }
        let mut none = Ingest::default();
        assert_eq!(
            (none.set_default_credentials(None), none.credentials),
            (Ok(()), None)
        );
    }
}
