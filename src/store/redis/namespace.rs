//! The names of this store's channels. Its keys are its own by its database and its prefix; a channel is only what it
//! is called: Redis passes messages on to whoever subscribed, whichever database he has selected.

/// The keys' prefix and the number of the database.
#[derive(Clone, Debug)]
pub(super) struct Namespace {
    pub prefix: String,
    pub database: u8,
}

impl Namespace {
    /// What is kept of a name. The braces make a cluster keep all of it together.
    pub fn key(&self, name: &str, what: &str) -> String {
        [&self.prefix, ":{", name, "}:", what].concat()
    }

    /// A channel that would have this name in the first database. The number comes last, so that a pattern of an ACL
    /// that begins with the prefix fits all of them.
    pub fn channel(&self, name: String) -> String {
        match self.database {
            0 => name,
            number => format!("{name}:{number}"),
        }
    }
}
