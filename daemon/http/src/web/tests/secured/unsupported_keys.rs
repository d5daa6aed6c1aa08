//! Well-formed keys that the TLS library does not support.

use super::*;

/// `openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:secp521r1`.
const P521: &str = "-----BEGIN PRIVATE KEY-----\n\
    MIHuAgEAMBAGByqGSM49AgEGBSuBBAAjBIHWMIHTAgEBBEIBs26NwoN3o4Cdh9HM\n\
    nmWN4VsCKRIZKX57UjgRMSJYzb72eOjoDCqZe56YcscoNEd0zLq7XNwITi7q+RAD\n\
    2uP0mqShgYkDgYYABAAKa8cxuR3n+2DUHcqQlGirFxJBkCTmJSkYkJvFRML/n7L3\n\
    +quRGssrIvismTFcX4QU6beK8jn+coTQSMW5JB5mowBEcmkLNHSgc2K+8V45jPse\n\
    H02e2InHyee3OqXLz4TjyQOwfmi6g6TM0q9LK4sopmD75kfiuG063EnOPK3BTcGx\n\
    Vw==\n\
    -----END PRIVATE KEY-----\n";
/// The same key, as `openssl ec` writes it.
const P521_SEC1: &str = "-----BEGIN EC PRIVATE KEY-----\n\
    MIHcAgEBBEIBs26NwoN3o4Cdh9HMnmWN4VsCKRIZKX57UjgRMSJYzb72eOjoDCqZ\n\
    e56YcscoNEd0zLq7XNwITi7q+RAD2uP0mqSgBwYFK4EEACOhgYkDgYYABAAKa8cx\n\
    uR3n+2DUHcqQlGirFxJBkCTmJSkYkJvFRML/n7L3+quRGssrIvismTFcX4QU6beK\n\
    8jn+coTQSMW5JB5mowBEcmkLNHSgc2K+8V45jPseH02e2InHyee3OqXLz4TjyQOw\n\
    fmi6g6TM0q9LK4sopmD75kfiuG063EnOPK3BTcGxVw==\n\
    -----END EC PRIVATE KEY-----\n";
/// A self-signed certificate of that key.
const P521_CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\n\
    MIICBTCCAWagAwIBAgIUQ2IS8XZojh9p2IVruerk/MmzNdAwCgYIKoZIzj0EAwIw\n\
    FDESMBAGA1UEAwwJbG9jYWxob3N0MB4XDTI2MTEyNjEyMjYzMloXDTM2MTEyMzEy\n\
    MjYzMlowFDESMBAGA1UEAwwJbG9jYWxob3N0MIGbMBAGByqGSM49AgEGBSuBBAAj\n\
    A4GGAAQACmvHMbkd5/tg1B3KkJRoqxcSQZAk5iUpGJCbxUTC/5+y9/qrkRrLKyL4\n\
    rJkxXF+EFOm3ivI5/nKE0EjFuSQeZqMARHJpCzR0oHNivvFeOYz7Hh9NntiJx8nn\n\
    tzqly8+E48kDsH5ouoOkzNKvSyuLKKZg++ZH4rhtOtxJzjytwU3BsVejUzBRMB0G\n\
    A1UdDgQWBBSnWgzgILo2nApcVvUIrcV5SPiuczAfBgNVHSMEGDAWgBSnWgzgILo2\n\
    nApcVvUIrcV5SPiuczAPBgNVHRMBAf8EBTADAQH/MAoGCCqGSM49BAMCA4GMADCB\n\
    iAJCAKJbVY8rRGnehbLtcnEIyaGQ5AUZZCNqPCcoDr5YuOLIsWosApRxicaX3+YT\n\
    An7KCuSVoLqFL4qljLOSp4U4nAevAkIAudyY8NttPdJZ50A298qZkN04QYlOOrSK\n\
    Ho1ur8xoEqODftjiIJC8H3vm1JGStpMEESIBHY49CgNqSV8BlEJ2MZg=\n\
    -----END CERTIFICATE-----\n";
/// `openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:secp256k1`.
const SECP256K1: &str = "-----BEGIN PRIVATE KEY-----\n\
    MIGEAgEAMBAGByqGSM49AgEGBSuBBAAKBG0wawIBAQQgm3/m0hake+gZXI9C/cZX\n\
    yCBWn0MM/AaM3UVCYxw6JDahRANCAAQUB9QlEGKCeqcHQPDLxChnU0cTegqH5Qbx\n\
    +TRKnFAeXg1InjH50gJQDseCyg4x6+ryo2vxzRWzDSPwGoVuSShs\n\
    -----END PRIVATE KEY-----\n";
/// `openssl genpkey -algorithm ed448`.
const ED448: &str = "-----BEGIN PRIVATE KEY-----\n\
    MEcCAQAwBQYDK2VxBDsEOb2kXol2bCTB3lKKx0LMB3flwPLST3GjgQhTulT+jIil\n\
    OWJuNXyxY0hkgdzRxHjENEQXy4pyBTy7FQ==\n\
    -----END PRIVATE KEY-----\n";
/// `openssl genrsa 1024`.
const RSA_1024: &str = "-----BEGIN PRIVATE KEY-----\n\
    MIICdgIBADANBgkqhkiG9w0BAQEFAASCAmAwggJcAgEAAoGBAJs017ukwBRSkJ3q\n\
    wfeBEnAdJz2tRc8nYyW3XHO8vucN5H6pza+0HW6G6iLDSPbPS8zg/znTS5ElhQU8\n\
    H+DeufKt0sYZvcvbuIwkXK9KnNdiOXYZ735IcuGP1kJ1x6JWkD+OO4cJ6/FFXp18\n\
    AEb8T+nMj42nnm/C8833jsl6OYgVAgMBAAECgYB67NVYttmyvtnvWPmbT80Moupr\n\
    fQrnUSjDvIAq4njIg0ZP06km2h7dZVmXgtgNMo20jRdX8zPMl8zNIpuU/JKEmKgn\n\
    ZBUBGBzYSJ3veCFDromT2NoqyoQcbPj73lIdDiCPAFOfmcP8WQgYXPjljR0REGbv\n\
    oPhy9HIK3kXq5nAQWQJBAM1SwpLA485324W+07alsNTUi3BVPJq9msrmv3X9ot0I\n\
    MGf82NnHX0N90dGkS2C/xOqgqRTiCBf3IlbtP3EncF8CQQDBg3nOIAGuyR3it2y8\n\
    bwnUUeWhN9XhrU/CiBz/x37d7dSIgbx0UyM9WIwdzRm2ZmELrXR9O2n7RmCj0C4h\n\
    hMwLAkEAxykp11QHJPUaGMebcSWTOz7X6qSjXq3gAkSFHxxh5+jTm2qlpclAXKUk\n\
    6ydkfnpFthkVKU5+71AnHQ6QZWAOHQJAXe63/XpD1tgBDcADpCQyHUHzuSIlS/qY\n\
    sNDpYq8vwgJkHC79j2mbvXdx7DVWuddQXB7CYNeqRjKPTnULL3IKqQJAJl/7weCv\n\
    /HCIz2BNFlvgZ1TVwHcxiuoZNc/5ZuAu2bLGKhMWnKkPQetaLQ6UAAGJrF95tD8a\n\
    FOVEjklpOvp3hw==\n\
    -----END PRIVATE KEY-----\n";
/// `openssl genrsa -traditional 1024`.
const RSA_1024_PKCS1: &str = "-----BEGIN RSA PRIVATE KEY-----\n\
    MIICWwIBAAKBgQDs3IO32R86FndEwtppvMAyOohitYofIuUpX4VBzaLlxO5usaTU\n\
    DcxJIbaP6pkB0PCUl3gqO3vczB5+IpZOChLQZ8my9VG7JnV73WTEYsn5wI5C3MF6\n\
    MKh5wBMEYKMqX9yodlJIwNvmUCAwZEWXZ89L77y7ZFQ0QuEAU6PexBlXgQIDAQAB\n\
    AoGADhLUKLpX5qWrFITXYWz7poBf1i2fNVZnc1vfmRdU1H4tBJq9hnQDbVz5cfeo\n\
    e7kkck/Frgy2wVnHfgskDyL+FxKwZjxHzx/AVSugxHqzvQYrURIden9ImJlFmQ9p\n\
    F903szbQNXKF/uIP5JJdi/R6dtWKS03sZuLY8Hs6vdU79bkCQQD2onh2Jx/hrIgF\n\
    7RPTM7feSYh0qsLooWSmLpKym9l0mtPkc1tISCT+LKGJpr9asz8fi3OSQHX0WWsS\n\
    gnkIdd5rAkEA9dsJzYc17FTsN9mByY6mNmVi4BkK2vSNBgZ6B0vd+zIGGwwCddpF\n\
    EEoqHri5rTrc0jjZ4qnYY9dwKiv6T9XEwwJAD0SFgoLvhU/h58QCWyuzcS5KJTbA\n\
    9BexnFv7ttTRBFflUBoYB4R3zchDg7rv05SPDsvaLq6Q3rx+VVoAVha92wJAIQYJ\n\
    /Ax0ZslFbX8O2ucJVncp39YdSindI3kNPRuotowSm+FyFyh5bGW54KSJdEZa0PYH\n\
    9lVAFrEihNehaMXbBwJAKfXwiN9yk11DKSdKoR7KNeQW06JC5DdFkm+9rlfcI/cj\n\
    TFuNRomUNUqidDLR8wvtmWvdxSH4qLMfKrBVluBwbA==\n\
    -----END RSA PRIVATE KEY-----\n";

/// The errors of the check of a configuration.
fn findings(folder: &Folder, more: &str) -> Vec<String> {
    let web_config = Some(folder.web_config(more));
    let metrics = Metrics {
        web_config,
        ..Metrics::default()
    };
    check(&metrics).iter().map(ToString::to_string).collect()
}

#[test]
fn an_unsupported_private_key_type_is_named_in_the_error() {
    for (key, kind) in [
        (P521, "curve P-521"),
        (P521_SEC1, "curve P-521"),
        (SECP256K1, "curve secp256k1"),
        (ED448, "Ed448"),
        (RSA_1024, "RSA"),
        (RSA_1024_PKCS1, "RSA"),
    ] {
        let folder = Folder::new();
        folder.write("server.pem", P521_CERTIFICATE);
        folder.write("server.key", key);
        let found = findings(&folder, "");
        assert_eq!(found.len(), 1, "{found:#?}");
        for part in [
            "web.yml: tls_server_config.key_file",
            "server.key",
            kind,
            "prime256v1",
        ] {
            assert!(found[0].contains(part), "{part}: {found:#?}");
        }
    }
}

#[test]
fn an_unsupported_client_ca_curve_is_named_unless_another_works() {
    let folder = Folder::new();
    let more = "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: clients.pem\n";
    folder.write("clients.pem", P521_CERTIFICATE);
    let found = findings(&folder, more);
    assert_eq!(found.len(), 1, "{found:#?}");
    for part in ["client_ca_file", "clients.pem", "curve P-521"] {
        assert!(found[0].contains(part), "{part}: {found:#?}");
    }
    folder.write(
        "clients.pem",
        &format!("{P521_CERTIFICATE}{}", folder.authority.pem()),
    );
    assert_eq!(findings(&folder, more), [""; 0]);
}
