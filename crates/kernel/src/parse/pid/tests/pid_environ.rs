use super::super::*;

#[test]
fn environment_names_are_kept_and_values_only_on_request() {
    let text = b"RUST_LOG=solana=info\0SOLANA_METRICS_CONFIG=host=x,p=secret\0EMPTY=\0no pair\0two words=x\0=x\0";
    let found = Environment::parse(text, |name| name == "RUST_LOG" || name == "EMPTY").unwrap();
    let expected = [
        ("EMPTY".to_owned(), Some(String::new())),
        ("RUST_LOG".to_owned(), Some("solana=info".to_owned())),
        ("SOLANA_METRICS_CONFIG".to_owned(), None),
    ];
    assert_eq!(found.variables, BTreeMap::from(expected));
    assert!(!format!("{found:?}").contains("secret"));
}
