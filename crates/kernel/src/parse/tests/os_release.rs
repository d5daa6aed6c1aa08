use super::super::*;

#[test]
fn pretty_name_takes_precedence_over_name() {
    let text = b"NAME=\"Debian GNU/Linux\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n";
    assert_eq!(
        os_name(text).unwrap().as_deref(),
        Some("Debian GNU/Linux 12 (bookworm)")
    );
    assert_eq!(
        os_name(b"NAME=Alpine\nID=alpine\n").unwrap().as_deref(),
        Some("Alpine")
    );
    assert_eq!(os_name(b"PRETTY_NAME=\"\"\n"), Ok(None));
}
