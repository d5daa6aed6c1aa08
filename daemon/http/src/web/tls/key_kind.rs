//! Key types that the TLS library does not support, by their object identifiers in DER.

use rustls::pki_types::PrivateKeyDer;

/// Object identifiers in DER (with tag and length), and their names in `openssl`.
const CURVES: [(&[u8], &str); 6] = [
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
const RSA: (&[u8], &str) = (
    b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01",
    "RSA of fewer than 2048 or more than 4096 bits",
);

/// `id-ecPublicKey`, before the curve of a public key.
const EC_PUBLIC_KEY: &[u8] = b"\x06\x07\x2a\x86\x48\xce\x3d\x02\x01";

/// The type of an unsupported private key, if known.
pub fn unsupported_key_kind(key: &PrivateKeyDer<'_>) -> Option<&'static str> {
    if let PrivateKeyDer::Pkcs1(_) = key {
        return Some(RSA.1);
    }
    let der = key.secret_der();
    let known = CURVES.iter().chain([&ED448, &RSA]);
    known
        .filter(|(identifier, _)| contains(der, identifier))
        .map(|(_, name)| *name)
        .next()
}

/// The curve of a certificate's own key, if the library cannot check signatures on it.
pub fn unsupported_curve(certificate: &[u8]) -> Option<&'static str> {
    let of_key = |(identifier, _): &&(&[u8], &str)| {
        contains(certificate, &[EC_PUBLIC_KEY, identifier].concat())
    };
    CURVES.iter().find(of_key).map(|(_, name)| *name)
}

fn contains(der: &[u8], part: &[u8]) -> bool {
    der.windows(part.len()).any(|window| window == part)
}
