//! The upstream's state, logged once per change.

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Health {
    #[default]
    Untried,
    Well,
    /// Unreachable, or temporarily unable to accept pushes; the reason.
    Failing(String),
    Refusing {
        code: u16,
        excerpt: String,
    },
}

impl Health {
    /// Logs only a change of kind: reasons may vary between attempts.
    pub(super) fn becomes(&mut self, newer: Health, upstream: &str) {
        let older = std::mem::replace(self, newer);
        match (&older, &*self) {
            (Health::Well, Health::Well)
            | (Health::Failing(_), Health::Failing(_))
            | (_, Health::Untried) => {}
            (Health::Refusing { code: old, .. }, Health::Refusing { code: new, .. })
                if old == new => {}
            (_, Health::Well) => tracing::info!(upstream, "upstream accepts pushes"),
            (_, Health::Failing(reason)) => {
                tracing::warn!(
                    upstream,
                    reason,
                    "upstream unreachable; pushes are queued and retried with backoff"
                );
            }
            (_, Health::Refusing { code, excerpt }) => {
                tracing::warn!(
                    upstream,
                    status = code,
                    answer = excerpt,
                    "upstream rejects pushes; they are dropped"
                );
            }
        }
    }
}
