use anyhow::{Context, Result};
use std::{path::Path, sync::Arc};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, TlsProvider, parse_pem};

/// Trusts the system's certificates, or those of a file alone.
pub fn client_config(ca_file: Option<&Path>) -> Result<TlsConfig> {
    let roots: Vec<Certificate<'static>> = match ca_file {
        Some(file) => {
            let named = || format!("--ca {}", file.display());
            let pem = std::fs::read(file).with_context(named)?;
            let items: Vec<PemItem<'static>> = parse_pem(&pem)
                .collect::<Result<_, _>>()
                .with_context(named)?;
            let certificates = items.into_iter().filter_map(|item| match item {
                PemItem::Certificate(certificate) => Some(certificate),
                _ => None,
            });
            certificates.collect()
        }
        None => {
            let system = rustls_native_certs::load_native_certs().certs;
            system
                .iter()
                .map(|der| Certificate::from_der(der).to_owned())
                .collect()
        }
    };
    anyhow::ensure!(
        !roots.is_empty(),
        "no certificate to trust: install ca-certificates, or name a PEM file with --ca or SSL_CERT_FILE"
    );
    Ok(TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .root_certs(RootCerts::Specific(Arc::new(roots)))
        .build())
}
