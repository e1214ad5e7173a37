//! The protocol of one role: who leads, until when, and under which token. Pure: no clock, no network, no randomness of
//! its own, nothing but `std`. Everybody else owns those and hands them in.
//!
//! # What is not guaranteed
//!
//! * *That only one acts.* Each answer is good until its own expiry. What is still on its way then is stopped only by a
//!   resource that refuses tokens smaller than one it has seen.
//! * *Anything under clocks that run more than 1 % apart.* They need not agree on the time, and the store's may be
//!   stepped; a replica's must go on while its machine sleeps.
//! * *One leader, where two masters are served.* A Redis that can be split needs acknowledgements (R6) or a quorum, and
//!   a quorum needs members whose clocks are not stepped together, and an objector whose answer comes.
//! * *That somebody leads.* Nobody does while the store does not answer, under a guard, and for a lease after a role
//!   was first asked for: in doubt availability gives way.
//! * *Of locks and ledgers as much.* A lock knows neither evictions nor steps of the store's clock; a ledger that is
//!   lost together with its leader is lost.
//!
//! # What is where
//!
//! Each rule of `docs/guarantees.md`, the file that keeps it here, the script that does on Redis what the reference
//! does (`src/store/redis/scripts/`), and one test of many: those whose names begin with the rule's are in
//! `tests/store/suite/`, for every store, and in `tests/simulation/holes.rs`, with the rule switched off.
//!
//! | rule | file | script | test |
//! |---|---|---|---|
//! | R1 campaign | `election/candidate.rs` | | `an_unanswered_campaign_is_repeated_under_the_same_attempt` |
//! | R1 | `reference/lease.rs` | `campaign.lua` | `r1_a_repeated_attempt_is_under_every_guard` |
//! | R2 deadline | `election/incumbent.rs` | | `a_term_is_counted_from_when_its_request_was_sent` |
//! | R2 | `election/leadership.rs` | | `an_answer_promises_the_shorter_of_validity_and_what_is_left` |
//! | R3 tokens | `reference/lease.rs` | `campaign.lua` | `r3_tokens_rise_above_the_record_the_floor_and_the_clock` |
//! | R4 reassert | `reference/lease.rs` | `renew.lua` | `r4_the_count_goes_on_where_the_store_lost_it` |
//! | R5 guard | `reference/guard.rs` | `common.lua` | `r5_guard_off_asks_nothing` |
//! | R5 | `reference/guard.rs` | `generation.lua` | `r5_an_old_master_is_promoted_again_in_the_same_process` |
//! | R5 vanished | `reference/lease.rs` | `campaign.lua` | `r5_vanished_is_told_by_the_end_that_the_record_remembers` |
//! | R5 what is known | `election/knowledge.rs` | | `what_is_known_grows_old_although_it_is_told_again` |
//! | R6 acks | `reference/lease.rs` | `confirm.lua` | `r6_a_replica_that_acknowledged_another_master_comes_back` |
//! | R7 release | `election/incumbent.rs` | | `a_drain_keeps_and_renews_the_lease_until_the_last_promise_has_run_out` |
//! | R7 | `reference/lease.rs` | `release.lua` | `r7_nobody_releases_anothers_lease` |
//! | R7 of who has ended | `election/takeover.rs` | `release.lua` | `who_could_not_lead_leaves_it_to_others` |
//! | R8 waiting | `election/candidate.rs` | | `a_heartbeat_keeps_a_candidate_quiet_for_one_lease_on_its_own_clock` |
//! | R8 spreading | `election/stagger.rs` | | `of_a_few_that_hear_a_release_nobody_waits` |
//! | R8 clock steps | `election/clock_step.rs` | | `steps_are_reported_and_drift_and_delay_are_not` |
//! | a quorum | `quorum/round.rs` | | `one_member_that_knows_of_an_incumbent_outweighs_all_others` |
//! | a member | `reference/quorum_member.rs` | `member_campaign.lua` | `a_raise_never_lowers_a_token` |
//! | a member | `reference/quorum_member.rs` | `member_raise.lua` | `the_members_count_together` |
//! | a member | `reference/quorum_member.rs` | `member_renew.lua` | `without_r4_a_lost_lease_stays_lost` |
//! | a member | `reference/quorum_member.rs` | `member_release.lua` | `a_grant_that_is_taken_back_is_not_announced` |
//! | Lease objects | `reference/lease_object/decide.rs` | | `nobody_releases_anothers_lease` |
//! | locks | `reference/locks.rs` | `lock_acquire.lua` | `a_request_that_is_repeated_finds_its_grant_and_counts_once` |
//! | locks, their queue | `reference/lock_cell.rs` | `lock_common.lua` | `nobody_overtakes_a_fair_ticket` |
//! | ledgers (P6) | `reference/ledger.rs` | `job_write.lua` | `a_leader_writes_on_what_it_knows_and_on_nothing_else` |
//! | jobs at run time (P6) | `reference/job_registry.rs` | `registry_take.lua` | `what_is_due_is_taken_once` |
//! | shards | `reference/presence.rs` | `presence.lua` | `those_are_present_that_said_so_within_their_span` |
//!
//! * [`Election`] is the replica's side: inputs and the passing of time go in, [`Action`]s come out.
//! * [`LeaseCell`] is the store's side: what one atomic step does to a role's lease and record. The Lua scripts of the
//!   Redis store are held against it.
//! * [`lease_object`] is the same for a store that is a Kubernetes API server: what one compare-and-set on a Lease
//!   object does.
//! * [`Leadership`] is what an app may be told right now, readable from any thread.
//! * [`TermGuard`] judges what acts for a term: a command, or a job's run.
//! * [`CampaignRound`], [`RenewRound`] and [`ReleaseRound`] ask a quorum of independent stores, each a [`MemberCell`].
//! * [`Balance`] spreads the shards of one role over its replicas: a policy above the leases, which never decides who
//!   leads.
//! * [`Timing`] is a set of durations under which all of this can work; others cannot be built.
//!
//! # One term
//!
//! ```text
//!  replica's clock ──────────────────────────────────────────────────────────────────────────────►
//!
//!   sent        granted              renewal sent     renewed                  no more answers
//!    │             │                      │              │                          │
//!    ●─────────────●──────────────────────●──────────────●───────── … ──────────────┤
//!    │             │◄─ leads ───────────────────────────────────────────────────────┤deadline
//!    │◄──────────────── leaseDuration − stepDownMargin ─┤ (first deadline)          │
//!    │                                    │◄─── leaseDuration − stepDownMargin ─────►│◄ margin ►│
//!    │      ┌──────── the lease in the store, from when each request arrived ─────────────────────┐
//!    │      └─────────────────────────────────────────────────────────────────────────────────────┘
//!    │                 │◄─ answerValidity ─►│   each answer is a promise, never longer than what is left
//!    │◄── renewPeriod ───────────────────►│
//! ```
//!
//! The deadline counts from when a request was *sent*, the lease from when it *arrived*, which is later: so the replica
//! stops before the store would let another begin, by the margin and by the request's time on the way.
//!
//! # Handing over
//!
//! ```text
//!   leading ──resign, shutdown──► draining ──the last promise ran out, or /drained──► released ─┐
//!     leader: true                  leader: false, the lease is kept                            │ published
//!                                                                                               ▼
//!   standby ◄──heartbeat── standby ──release heard, a random few milliseconds──► campaigning ──► leading
//! ```
//!
//! # Invariants
//!
//! What each is for is told by the promises P1 to P5 and the rules R1 to R8 of `docs/guarantees.md`. The simulation
//! checks the promises after every event, `tests/enumerate` in every order within bounds; the table tests beside each
//! file check the rest.
//!
//! 1. A replica leads at a moment if and only if that moment is before its deadline. Nothing else says so, and nothing
//!    is remembered of it (R2; [`Leadership::leads`]).
//! 2. A deadline is `sent + leaseDuration − stepDownMargin` of an acknowledged request of the current term, and never
//!    moves back. A term that is past its deadline, or that stopped leading, never leads again.
//! 3. No answer promises more than is left until the deadline; every answer is recorded in the step that makes it, and
//!    a lease is not released before the last one has run out, by whomever, except by the app's own word (P3, R7).
//! 4. A term is told by session, attempt and token together. No request of one term extends, replaces or releases the
//!    lease of another, however late it arrives.
//! 5. A request without an answer is neither granted nor refused: it is repeated under the same attempt, which gets the
//!    same term while its lease stands and no guard has begun, and a new token otherwise (R1, R2).
//! 6. A grant's token is greater than the record's, the candidate's floor and the store's clock, and a replica leads
//!    under none that is not greater than all it has seen (P2, R3).
//! 7. An incumbent whose token no later term has overtaken, and which did not release, is never refused, whatever the
//!    store has forgotten (P5, R4).
//! 8. After the store may have forgotten a lease (R5: *generation*, *empty*, *regression*, *vanished*), no grant for
//!    one lease; and a role whose release is not known to be the last word on it is granted only to who has known its
//!    record to stand still for a whole lease, on its own clock.
//! 9. A candidate does not look within one lease, on its own clock, of a heartbeat of another, but once in ten leases;
//!    and an attempt whose answer is out when one is heard is over (R8).
//! 10. Who has been deaf (just started, a new subscription, a paused process) claims to know nothing for half a lease,
//!     unless the store has told it for as long that nobody renews: until then only a release opens the role to it (R5,
//!     R8).
//! 11. Who sees the store's clock step forwards takes no grant for one lease: leases may have ended early.
//! 12. A renewal count belongs to one record and only rises with every grant, renewal and release, also over a loss of
//!     data; one that stood still for a whole lease, with its token and writer and on the candidate's own clock, means
//!     that the holder's deadline is past. A guard that begins takes the writer away and raises the count by thousands;
//!     only an incumbent that has been answered since becomes the writer again, once the guard is over (R5).
//! 13. Two terms of a quorum share a member that confirmed both, the later one under the greater token; the quorum's
//!     own invariants stand on the page of its members and rounds (`quorum/mod.rs`).
//! 14. Another's lease is only ever given back in the place of a process that has ended for certain, by that process's
//!     session and token: then no request of that session counts any more, whatever arrives late (R7;
//!     [`Input::Departed`]).
//! 15. Extra calls of [`Election::handle_timeout`], answers nobody asked for and answers that come twice change
//!     nothing.
mod election;
mod ids;
pub mod jobs;
mod locks;
mod messages;
mod quorum;
mod random;
mod reference;
mod rules;
mod shards;
mod timing;

pub use election::{
    Action, AppHoldEnd, AppHoldId, AppHoldScope, CampaignOutcome, Election, Event, Grace, GraceError, Input,
    Leadership, LossReason, NoReply, Profile, Promise, ReleaseReason, RenewalOutcome, RequestId, Sight, State,
    TermGuard, Verdict, View,
};
pub use ids::{Attempt, Attempts, Candidate, Mono, RoleName, RoleNameError, SessionId, StoreTime, Token};
pub use locks::{
    AcquireReply, AcquireRequest, CancelRequest, ExtendReply, ExtendRequest, HeldOpen, HoldEnd, HoldStep, LOOK_FIRST,
    LockGrant, LockHolder, LockId, LockInsight, LockName, LockNameError, LockReleaseReply, LockReleaseRequest,
    LockSpace, LockTurn, NAMES_MAX, OWNER_BYTES_MAX, PERMITS_MAX, Queueing, RECORD_SPAN, Restore, TICKET_SPAN,
    TURN_MAX, TurnSeat, UnlockReply, UnlockRequest, Unlocked, Wake, is_reminder, look_after, valid_span,
};
pub use messages::{
    Announcement, AnnouncementKind, CampaignReply, CampaignRequest, GuardCause, Holder, KnownRecord, RecordVersion,
    ReleaseReply, ReleaseRequest, RenewReply, RenewRequest, Stamped,
};
pub use quorum::{
    Ballot, CampaignRound, Heard, LastTerm, MemberCampaignReply, MemberCell, MemberReply, MemberRequest, RaiseReply,
    RaiseRequest, ReleaseRound, RenewRound, Round, RoundStep, Seat, Seats, Vote, lists_agree,
};
pub use random::{Random, fingerprint};
pub use reference::{LeaseCell, Outcome, Server, TokensExhausted, lease_object};
pub use rules::Rules;
pub use shards::{
    AppVersion, Balance, Mine, NoRank, Orders, Participant, Policy, Portion, Presence, PresenceRequest, Rank, Ranking,
    SHARDS_MAX, ShardSet, Spread, WHOLE,
};
pub use timing::{LEASE_DURATION_MAX, LEASE_DURATION_MIN, Timing, TimingProblem};
