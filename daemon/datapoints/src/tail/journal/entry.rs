use serde::Deserialize;

#[derive(Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Entry {
    #[serde(rename = "__CURSOR")]
    pub(super) cursor: String,
    #[serde(rename = "MESSAGE", default)]
    message: Option<Message>,
}

/// The value of a field in journalctl's JSON.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
enum Message {
    Text(String),
    Bytes(Vec<u8>),
    Several(Vec<Option<Message>>),
}

impl Entry {
    pub(super) fn parse(line: &[u8]) -> Option<Self> {
        serde_json::from_slice(line).ok()
    }

    pub(super) fn messages(&self) -> Vec<&[u8]> {
        let mut found = Vec::new();
        if let Some(message) = &self.message {
            message.collect(&mut found);
        }
        found
    }
}

impl Message {
    fn collect<'a>(&'a self, into: &mut Vec<&'a [u8]>) {
        match self {
            Message::Text(text) => into.push(text.as_bytes()),
            Message::Bytes(bytes) => into.push(bytes),
            Message::Several(several) => several
                .iter()
                .flatten()
                .for_each(|message| message.collect(into)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(line: &str) -> Option<Vec<Vec<u8>>> {
        Some(
            Entry::parse(line.as_bytes())?
                .messages()
                .into_iter()
                .map(<[u8]>::to_vec)
                .collect(),
        )
    }

    #[test]
    fn a_message_is_text_or_bytes_or_several_of_them_or_missing() {
        assert_eq!(
            messages(r#"{"__CURSOR":"s=1","MESSAGE":"a \"b\"\nc"}"#),
            Some(vec![b"a \"b\"\nc".to_vec()])
        );
        assert_eq!(
            messages(r#"{"MESSAGE":[27,91,255],"__CURSOR":"s=1"}"#),
            Some(vec![vec![27, 91, 255]])
        );
        assert_eq!(
            messages(r#"{"MESSAGE":["one",[116,119,111],null],"__CURSOR":"s=1"}"#),
            Some(vec![b"one".to_vec(), b"two".to_vec()])
        );
        assert_eq!(
            messages(r#"{"MESSAGE":null,"__CURSOR":"s=1"}"#),
            Some(vec![])
        );
        assert_eq!(
            messages(r#"{"__CURSOR":"s=1","_BOOT_ID":"x"}"#),
            Some(vec![])
        );
    }

    #[test]
    fn a_journal_line_without_a_cursor_is_not_an_entry() {
        for line in [
            "",
            "{}",
            "null",
            "-- Reboot --",
            r#"{"MESSAGE":"x"}"#,
            r#"{"__CURSOR":1}"#,
            r#"{"__CURSOR":"s=1""#,
        ] {
            assert_eq!(messages(line), None, "{line}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_journal_line_causes_a_panic(line in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            if let Some(entry) = Entry::parse(&line) {
                entry.messages();
            }
        }
    }
}
