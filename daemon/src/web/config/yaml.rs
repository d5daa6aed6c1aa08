//! A YAML document as a tree whose keys know their lines, so that every mistake can be told at once.

use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_saphyr::Spanned;
use std::fmt;

/// A value. Numbers are kept as text: no key of the web config file takes one.
#[derive(Debug)]
pub(super) enum Node {
    Empty,
    Text(String),
    Flag,
    Table(Vec<(Key, Node)>),
    List,
}

/// A key and its line, from 1.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) name: String,
    pub(super) line: u64,
}

impl Node {
    /// Reads a document; an empty one is [`Node::Empty`].
    ///
    /// # Errors
    /// The text is no YAML; the message names the line.
    pub(super) fn parse(text: &str) -> Result<Node, String> {
        let options = serde_saphyr::options! { with_snippet: false };
        let document: Option<Node> =
            serde_saphyr::from_str_with_options(text, options).map_err(|error| error.to_string())?;
        Ok(document.unwrap_or(Node::Empty))
    }

    /// What it is, for a message.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Node::Empty => "nothing",
            Node::Text(_) => "a text",
            Node::Flag => "true or false",
            Node::Table(_) => "a table",
            Node::List => "a list",
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Empty)
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Empty)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        Node::deserialize(deserializer)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Node, E> {
        Ok(Node::Flag)
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Text(value.to_owned()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Text(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Text(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Text(value.to_string()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Node::List)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
        let mut table = Vec::new();
        while let Some((key, node)) = entries.next_entry::<Spanned<String>, Node>()? {
            table.push((Key { line: key.referenced.line(), name: key.value }, node));
        }
        Ok(Node::Table(table))
    }
}
