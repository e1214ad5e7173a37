//! A YAML value before anything is known about it.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, VariantAccess, Visitor};

/// Any value. Mappings keep the order of their keys, and keys given twice.
#[derive(Clone, PartialEq)]
pub(super) enum Node {
    Null,
    Bool(bool),
    /// A number, as it would be written.
    Number(String),
    Text(String),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
    /// A value with a tag of its own (`!something`).
    Tagged,
}

impl Node {
    /// What kind of value this is, for messages. Never the value itself, which may be a secret.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "empty",
            Self::Bool(_) => "true or false",
            Self::Number(_) => "a number",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
            Self::Map(_) => "a mapping",
            Self::Tagged => "a tagged value",
        }
    }
}

/// Builds a [`Node`] from any format, but not more values than the budget: aliases of aliases could make billions.
pub(super) struct NodeSeed<'b> {
    pub(super) budget: &'b Cell<usize>,
}

impl NodeSeed<'_> {
    fn spend<E: Error>(&self) -> Result<(), E> {
        match self.budget.get().checked_sub(1) {
            Some(rest) => self.budget.set(rest),
            None => return Err(E::custom("too many values, counting what aliases stand for")),
        }
        Ok(())
    }

    fn again(&self) -> Self {
        Self { budget: self.budget }
    }
}

impl<'de> DeserializeSeed<'de> for NodeSeed<'_> {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        self.spend()?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for NodeSeed<'_> {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Number(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Number(value.to_string()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Node, E> {
        Ok(Node::Number(value.to_string()))
    }

    fn visit_u128<E>(self, value: u128) -> Result<Node, E> {
        Ok(Node::Number(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Number(value.to_string()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Node, E> {
        Ok(Node::Text(value))
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self.again())? {
            list.push(item);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
        let mut map = Vec::new();
        while let Some((key, value)) = entries.next_entry_seed(self.again(), self.again())? {
            let key = match key {
                Node::Text(text) | Node::Number(text) => text,
                Node::Bool(value) => value.to_string(),
                Node::Null => "null".to_owned(),
                Node::List(_) | Node::Map(_) | Node::Tagged => "?".to_owned(),
            };
            map.push((key, value));
        }
        Ok(Node::Map(map))
    }

    fn visit_enum<A: EnumAccess<'de>>(self, tagged: A) -> Result<Node, A::Error> {
        let (_tag, inside) = tagged.variant_seed(self.again())?;
        inside.newtype_variant_seed(self)?;
        Ok(Node::Tagged)
    }
}
