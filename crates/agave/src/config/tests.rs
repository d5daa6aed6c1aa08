use super::*;

const GOOD: &str = "host=http://127.0.0.1:8086,db=prof,u=me,p=s3cret";

#[test]
fn a_complete_variable_is_accepted() {
    let config = SolanaMetricsConfig::parse(GOOD).unwrap();
    assert_eq!(
        config.write_url(),
        "http://127.0.0.1:8086/write?db=prof&u=me&p=s3cret&precision=n"
    );
}

#[test]
fn metrics_configs_agave_refuses_are_refused_with_the_reason() {
    for (text, mistake) in [
        ("", SolanaMetricsConfigError::Empty),
        (
            "host=h,db=d,u=u",
            SolanaMetricsConfigError::Missing { key: "p" },
        ),
        (
            "host=h,db=,u=u,p=p",
            SolanaMetricsConfigError::Missing { key: "db" },
        ),
        (
            "host=h,db=d,u=u,p=abc==",
            SolanaMetricsConfigError::NotAPair { position: 4 },
        ),
        (
            "host=h,db=d,u=u,p=a,b",
            SolanaMetricsConfigError::NotAPair { position: 5 },
        ),
        (
            "host=h,db=d,u=u,p=p,x=y",
            SolanaMetricsConfigError::UnknownKey { position: 5 },
        ),
        (
            "host=h, db=d,u=u,p=p",
            SolanaMetricsConfigError::UnknownKey { position: 2 },
        ),
        (
            "host=h,db=d,u=u,p=p,",
            SolanaMetricsConfigError::NotAPair { position: 5 },
        ),
    ] {
        assert_eq!(SolanaMetricsConfig::parse(text), Err(mistake), "{text}");
    }
}

#[test]
fn the_metrics_config_password_is_never_shown() {
    let config = SolanaMetricsConfig::parse("host=http://a:s3cret@h:1,db=d,u=u,p=s3cret").unwrap();
    assert!(!format!("{config:?}").contains("s3cret"), "{config:?}");
}
