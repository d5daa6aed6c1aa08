//! TLS. Certificates are reloaded when their files change, so that a renewal needs no restart.

use super::WebError;
use faultline_core::{config::read_file, socket::Stream};
use faultline_kernel::FileVersion;
use itertools::{Itertools, chain};
use parking_lot::Mutex;
use rustls::{
    CertificateError, Error, RootCertStore, ServerConfig, SupportedProtocolVersion,
    client::{WebPkiServerVerifier, danger::ServerCertVerifier},
    pki_types::{
        CertificateDer, PrivateKeyDer, ServerName, UnixTime,
        pem::{self, PemObject},
    },
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};
use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio_rustls::server::TlsStream;

/// Curves that the TLS library does not support. Object identifiers in DER (with tag and length),
/// and names as in `openssl`.
const UNSUPPORTED_CURVES: [(&[u8], &str); 6] = [
    (b"\x06\x05\x2b\x81\x04\x00\x23", "curve P-521 (secp521r1)"),
    (b"\x06\x05\x2b\x81\x04\x00\x21", "curve P-224 (secp224r1)"),
    (b"\x06\x05\x2b\x81\x04\x00\x0a", "curve secp256k1"),
    (
        b"\x06\x09\x2b\x24\x03\x03\x02\x08\x01\x01\x07",
        "curve brainpoolP256r1",
    ),
    (
        b"\x06\x09\x2b\x24\x03\x03\x02\x08\x01\x01\x0b",
        "curve brainpoolP384r1",
    ),
    (
        b"\x06\x09\x2b\x24\x03\x03\x02\x08\x01\x01\x0d",
        "curve brainpoolP512r1",
    ),
];
const ED448: (&[u8], &str) = (b"\x06\x03\x2b\x65\x71", "algorithm Ed448");
const UNSUPPORTED_RSA: (&[u8], &str) = (
    b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01",
    "RSA of fewer than 2048 or more than 4096 bits",
);

/// `id-ecPublicKey`, before the curve of a public key.
const EC_PUBLIC_KEY: &[u8] = b"\x06\x07\x2a\x86\x48\xce\x3d\x02\x01";

#[derive(Debug)]
pub struct TlsFiles {
    pub config_file: PathBuf,
    pub cert: PathBuf,
    pub key: PathBuf,
    pub client_certificates: ClientCertificates,
    pub protocol_versions: Vec<&'static SupportedProtocolVersion>,
}

/// The paths are CA files.
#[derive(Debug)]
pub enum ClientCertificates {
    NotRequested,
    /// A client certificate is optional, but must be valid.
    IfGiven(PathBuf),
    Required(PathBuf),
}

impl ClientCertificates {
    fn ca_file(&self) -> Option<&Path> {
        match self {
            Self::NotRequested => None,
            Self::IfGiven(ca) | Self::Required(ca) => Some(ca),
        }
    }
}

type FileVersions = Vec<Option<FileVersion>>;

/// Accepts connections with the newest usable certificate.
#[derive(Debug)]
pub struct Acceptor {
    files: TlsFiles,
    loaded: Mutex<LoadedConfig>,
}

#[derive(Debug)]
struct LoadedConfig {
    config: Arc<ServerConfig>,
    file_versions: FileVersions,
    last_error: Option<String>,
}

impl Acceptor {
    pub fn new(files: TlsFiles) -> Result<Self, WebError> {
        // The versions are read before the files, so that a change in between causes a reload.
        let file_versions = files.file_versions();
        let config = Arc::new(files.load()?);
        Ok(Self {
            files,
            loaded: Mutex::new(LoadedConfig {
                config,
                file_versions,
                last_error: None,
            }),
        })
    }

    pub async fn accept(&self, stream: Stream) -> io::Result<TlsStream<Stream>> {
        tokio_rustls::TlsAcceptor::from(self.current())
            .accept(stream)
            .await
    }

    /// Reloads changed files; keeps the last good configuration if they are invalid.
    fn current(&self) -> Arc<ServerConfig> {
        let file_versions = self.files.file_versions();
        let mut loaded = self.loaded.lock();
        if loaded.file_versions == file_versions {
            loaded.last_error = None;
            return Arc::clone(&loaded.config);
        }
        match self.files.load() {
            Ok(config) => {
                tracing::info!(file = %self.files.cert.display(), "TLS files reloaded");
                *loaded = LoadedConfig {
                    config: Arc::new(config),
                    file_versions,
                    last_error: None,
                };
            }
            // Each connection retries the load. The error is logged once.
            Err(error) => {
                let error = Some(error.to_string());
                if loaded.last_error != error {
                    tracing::error!(
                        error,
                        "cannot load the changed TLS files; the previous ones stay in use"
                    );
                    loaded.last_error = error;
                }
            }
        }
        Arc::clone(&loaded.config)
    }
}

impl TlsFiles {
    fn file_versions(&self) -> FileVersions {
        chain!([&*self.cert, &self.key], self.client_certificates.ca_file())
            .map(|path| FileVersion::of_path(path).ok())
            .collect()
    }

    pub fn expiry_warning(&self, now: Duration) -> Option<String> {
        let chain = self.certificates(&self.cert, "cert_file").ok()?;
        let (leaf, intermediates) = chain.split_first()?;
        let mut roots = RootCertStore::empty();
        // Trust does not matter here: this only checks the validity period.
        roots.add_parsable_certificates(chain.iter().cloned());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .ok()?;
        let name = ServerName::try_from("localhost").ok()?;
        let checked = verifier.verify_server_cert(
            leaf,
            intermediates,
            &name,
            &[],
            UnixTime::since_unix_epoch(now),
        );
        let what = match checked.err()? {
            Error::InvalidCertificate(
                CertificateError::Expired | CertificateError::ExpiredContext { .. },
            ) => "has expired: scrapers refuse it; renew it",
            Error::InvalidCertificate(
                CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. },
            ) => "is not valid yet: scrapers refuse it; check its start and this machine's clock",
            _ => return None,
        };
        Some(format!("{}: the certificate {what}", self.cert.display()))
    }

    pub fn errors(&self) -> Vec<WebError> {
        let ca = self.client_certificates.ca_file();
        let mut errors = chain!(
            self.certificates(&self.cert, "cert_file").err(),
            self.private_key().err(),
            ca.and_then(|ca| self.client_authorities(ca).err()),
        )
        .collect_vec();
        if errors.is_empty() {
            errors.extend(self.load().err());
        }
        errors
    }

    fn private_key(&self) -> Result<PrivateKeyDer<'static>, WebError> {
        let text = read(&self.key)?;
        let key = PrivateKeyDer::from_pem_slice(&text)
            .map_err(|error| self.pem_error("key_file", &self.key, "private key", &error))?;
        match rustls::crypto::ring::sign::any_supported_type(&key) {
            Ok(_) => Ok(key),
            Err(error) => Err(self.unusable_key(&key, &error)),
        }
    }

    fn unusable_key(&self, key: &PrivateKeyDer<'_>, error: &Error) -> WebError {
        let path = self.key.display();
        let what = match unsupported_key_kind(key) {
            None => format!("{path}: {error}"),
            Some(kind) => format!(
                "{path} contains a key that the TLS library cannot use ({kind}): make a P-256 key with `openssl \
                 ecparam -name prime256v1 -genkey -noout` and have a certificate issued for it"
            ),
        };
        self.setting_error("key_file", what)
    }

    /// The CA certificates. It is an error if all their keys have unsupported curves.
    fn client_authorities(&self, ca: &Path) -> Result<Vec<CertificateDer<'static>>, WebError> {
        let certificates = self.certificates(ca, "client_ca_file")?;
        let curves: Option<Vec<_>> = certificates
            .iter()
            .map(|certificate| unsupported_curve(certificate))
            .collect();
        let Some([curve, ..]) = curves.as_deref() else {
            return Ok(certificates);
        };
        Err(self.setting_error(
            "client_ca_file",
            format!(
                "{}: the TLS library cannot check signatures of this authority's key ({curve}): sign the clients with a \
                 P-256 key",
                ca.display()
            ),
        ))
    }

    fn load(&self) -> Result<ServerConfig, WebError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&self.protocol_versions)
            .map_err(|error| self.setting_error("min_version", error))?;
        let builder = match self.client_certificates.ca_file() {
            None => builder.with_no_client_auth(),
            Some(ca) => builder.with_client_cert_verifier(self.verifier(ca, provider)?),
        };
        let chain = self.certificates(&self.cert, "cert_file")?;
        let key = self.private_key()?;
        let mut config = builder.with_single_cert(chain, key).map_err(|error| {
            self.setting_error(
                "cert_file",
                format!(
                    "{} cannot be used with {}: {error}",
                    self.cert.display(),
                    self.key.display()
                ),
            )
        })?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }

    fn verifier(
        &self,
        ca: &Path,
        provider: Arc<rustls::crypto::CryptoProvider>,
    ) -> Result<Arc<dyn ClientCertVerifier>, WebError> {
        let mut roots = RootCertStore::empty();
        for certificate in self.client_authorities(ca)? {
            roots.add(certificate).map_err(|error| {
                self.setting_error("client_ca_file", format!("{}: {error}", ca.display()))
            })?;
        }
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        let builder = match self.client_certificates {
            ClientCertificates::Required(_) => builder,
            _ => builder.allow_unauthenticated(),
        };
        builder
            .build()
            .map_err(|error| self.setting_error("client_ca_file", error))
    }

    fn certificates(
        &self,
        path: &Path,
        setting: &str,
    ) -> Result<Vec<CertificateDer<'static>>, WebError> {
        let text = read(path)?;
        let certificates = match CertificateDer::pem_slice_iter(&text).collect() {
            Ok(certificates) if Vec::is_empty(&certificates) => Err(pem::Error::NoItemsFound),
            read => read,
        };
        certificates.map_err(|error| self.pem_error(setting, path, "certificate", &error))
    }

    fn pem_error(&self, setting: &str, path: &Path, what: &str, error: &pem::Error) -> WebError {
        let path = path.display();
        let message = match error {
            pem::Error::NoItemsFound => format!("{path} contains no {what} in PEM form"),
            error => format!("{path}: {error}"),
        };
        self.setting_error(setting, message)
    }

    fn setting_error(&self, setting: &str, what: impl ToString) -> WebError {
        WebError::Key {
            path: self.config_file.clone(),
            key: format!("tls_server_config.{setting}"),
            what: what.to_string(),
        }
    }
}

pub fn read(path: &Path) -> Result<Vec<u8>, WebError> {
    read_file(path).map_err(|source| WebError::Read {
        path: path.to_owned(),
        source,
    })
}

fn unsupported_key_kind(key: &PrivateKeyDer<'_>) -> Option<&'static str> {
    if let PrivateKeyDer::Pkcs1(_) = key {
        return Some(UNSUPPORTED_RSA.1);
    }
    let der = key.secret_der();
    let mut known = UNSUPPORTED_CURVES.iter().chain([&ED448, &UNSUPPORTED_RSA]);
    known.find_map(|(identifier, name)| contains(der, identifier).then_some(*name))
}

/// The curve of a certificate's public key, if the library cannot check signatures of this key.
fn unsupported_curve(certificate: &[u8]) -> Option<&'static str> {
    UNSUPPORTED_CURVES.iter().find_map(|(identifier, name)| {
        contains(certificate, &[EC_PUBLIC_KEY, identifier].concat()).then_some(*name)
    })
}

fn contains(der: &[u8], part: &[u8]) -> bool {
    der.windows(part.len()).any(|window| window == part)
}
