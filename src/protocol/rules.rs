//! Which rules are in force. All of them in production; the simulation switches them off one by one to show what each
//! is worth, because a checker that never sees a failure proves nothing.

/// Switches for the rules of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// R3 and R5 *regression*: tokens rise above the candidate's floor and the store's clock; a record below the floor
    /// closes the role. Without it a token is the stored one plus one.
    pub tokens: bool,
    /// R4: a renewal puts a lost lease back.
    pub reassert: bool,
    /// R5 *generation* and *empty*.
    pub generation: bool,
    /// R5 *vanished*, with its second look.
    pub vanished: bool,
    /// R8: heartbeats are heard, and a replica listens before its first grant.
    pub heartbeats: bool,
}

impl Rules {
    /// Everything: what is run in production.
    pub const ALL: Self = Self { tokens: true, reassert: true, generation: true, vanished: true, heartbeats: true };
    /// A TTL and a counter: what most lock libraries do.
    pub const NONE: Self =
        Self { tokens: false, reassert: false, generation: false, vanished: false, heartbeats: false };
}
