//! How the upstream is doing, said once per change.

/// What the last answer, or the lack of one, tells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Health {
    /// Nothing was sent yet.
    #[default]
    Untried,
    Well,
    /// It cannot be reached or says that it cannot take pushes now; the reason.
    Failing(String),
    /// It says no.
    Refusing {
        /// The status it answered with.
        code: u16,
        /// The beginning of what it said.
        excerpt: String,
    },
}

impl Health {
    /// Takes the newer state's place and logs it if it is of another kind: reasons may vary from try to try.
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
