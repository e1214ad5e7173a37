//! Which rules are in force. A store has its own set ([`Rules::REDIS`], [`Rules::QUORUM`], [`Rules::KUBERNETES`]); the
//! simulation switches them off one by one to show what each is worth, because a checker that never sees a failure
//! proves nothing.

/// Switches for the rules of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rules {
    /// R1: a campaign without an answer is repeated under the same attempt, so that a lost grant is found again. A
    /// quorum takes back what a failed round got, so there the next one is a new attempt.
    pub repeat: bool,
    /// R1: such a repetition is under every guard, and a new campaign with a new token once its lease has run out.
    pub fresh_repeat: bool,
    /// R1: whoever is granted the role again and again, and has had no answer that counts for a lease, gives it back
    /// and lets others try.
    pub makes_way: bool,
    /// R2: a deadline is counted from when the request was sent, not from when its answer came.
    pub sent_at: bool,
    /// R3 and R5 *regression*: tokens rise above the candidate's floor and the store's clock; a record below the floor
    /// closes the role. Without it a token is the stored one plus one.
    pub tokens: bool,
    /// R4: a renewal puts a lost lease back.
    pub reassert: bool,
    /// R5 *generation*.
    pub generation: bool,
    /// R5 *empty*: a new record is shut for a lease.
    pub empty: bool,
    /// R5: a guard lasts for the longer of the asker's lease and the record's, and nobody's question shortens it.
    pub longest: bool,
    /// R5 *vanished*, with its second look.
    pub vanished: bool,
    /// R5 *vanished*, told by the end of the lease that the record remembers.
    pub until: bool,
    /// R5: nobody new is granted a role that was not released who has not known its record to stand still for a whole
    /// lease, on its own clock: so no step of the store's clock lets anybody in early.
    pub still: bool,
    /// R7: a lease is not given back before the promises given out have run out.
    pub promises: bool,
    /// R8: heartbeats are heard.
    pub heartbeats: bool,
    /// R8: a replica listens for half a lease before its first grant and after every gap, and takes no grant while the
    /// store's clock has just been stepped. Only where one server's word is enough for a grant.
    pub listening: bool,
    /// The quorum's: nobody is granted while a member reports a confirmed lease of another.
    pub objection: bool,
    /// The quorum's: nor while a member reports a grant to another and only one of those who grant knows of the newest
    /// term.
    pub newest_term: bool,
}

impl Rules {
    /// Whether several stores decide together: where candidates that ask at once divide them among themselves.
    pub const fn is_quorum(&self) -> bool {
        self.objection
    }

    /// One Redis, with or without replicas, and the memory store.
    pub const REDIS: Self = Self {
        repeat: true,
        fresh_repeat: true,
        makes_way: true,
        sent_at: true,
        tokens: true,
        reassert: true,
        generation: true,
        empty: true,
        longest: true,
        vanished: true,
        until: true,
        still: true,
        promises: true,
        heartbeats: true,
        listening: true,
        objection: false,
        newest_term: false,
    };
    /// Independent masters: a majority's word, and any member's objection, are better than listening. A member that
    /// missed a term is normal there, so there is no *regression* and no *vanished*.
    pub const QUORUM: Self = Self {
        repeat: false,
        makes_way: false,
        vanished: false,
        still: false,
        listening: false,
        objection: true,
        newest_term: true,
        ..Self::REDIS
    };
    /// A Lease object: its server keeps what it has written, so that nobody can have come in between unseen, and each
    /// candidate watches it for a whole lease.
    pub const KUBERNETES: Self = Self {
        fresh_repeat: false,
        makes_way: false,
        generation: false,
        empty: false,
        vanished: false,
        until: false,
        still: false,
        listening: false,
        ..Self::REDIS
    };
    /// A TTL and a counter: what most lock libraries do. That a deadline counts from sending, and that a release waits
    /// for the promises, are the replica's own business and no rule of the store.
    pub const NONE: Self = Self {
        repeat: true,
        fresh_repeat: false,
        makes_way: false,
        sent_at: true,
        tokens: false,
        reassert: false,
        generation: false,
        empty: false,
        longest: false,
        vanished: false,
        until: false,
        still: false,
        promises: true,
        heartbeats: false,
        listening: false,
        objection: false,
        newest_term: false,
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a rule costs is not paid where its store makes up for it.
    #[test]
    fn stores_that_keep_what_they_wrote_do_without_what_redis_needs() {
        let needs = |rules: Rules| [rules.makes_way, rules.vanished, rules.still, rules.listening];
        assert_eq!(
            [needs(Rules::REDIS), needs(Rules::QUORUM), needs(Rules::KUBERNETES)],
            [[true; 4], [false; 4], [false; 4]]
        );
        assert_eq!([Rules::REDIS, Rules::QUORUM, Rules::KUBERNETES].map(|rules| rules.repeat), [true, false, true]);
        let lease_objects = Rules::KUBERNETES;
        let forgets = [lease_objects.fresh_repeat, lease_objects.generation, lease_objects.empty, lease_objects.until];
        assert_eq!(forgets, [false; 4]);
    }
}
