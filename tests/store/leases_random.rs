//! Random operations on the Kubernetes store and on the reference (`LeaseCell`): the same answers, as far as both have
//! the same rules. What a replica remembers of an object that is gone is more than the reference knows, so a store that
//! has forgotten everything is a new one; and R5 is another here (an object is watched for a lease), so it is off.

use std::collections::BTreeMap;

use baton::protocol::{Candidate, LeaseCell, Rules, Server, StoreTime};

use super::lease_api::LeaseApi;
use super::*;

const SEEDS: u64 = 60;
const OPERATIONS: usize = 40;

#[derive(Clone, Debug)]
enum Operation {
    Campaign(CampaignRequest),
    Renew(RenewRequest),
    Release(ReleaseRequest),
    NameVanishes,
    EverythingForgotten,
}

struct Pair<'a> {
    api: &'a LeaseApi,
    store: KubernetesStore,
    role: RoleName,
    cell: LeaseCell,
    clock: u64,
    /// The store's token to the reference's.
    tokens: BTreeMap<Token, Token>,
    attempts: [u64; 3],
    /// Whose each token is.
    owners: BTreeMap<Token, Candidate>,
    seen: &'a mut BTreeMap<&'static str, usize>,
}

impl Pair<'_> {
    fn name(&self) -> String {
        format!("baton-{}", self.role)
    }

    fn saw(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    fn same_token(&mut self, ours: Token, reference: Token) {
        if let Some(known) = self.tokens.get(&ours) {
            assert_eq!(*known, reference, "the reference's token for {ours}");
            return;
        }
        self.tokens.insert(ours, reference);
        let order: Vec<Token> = self.tokens.values().copied().collect();
        assert!(order.is_sorted_by(|a, b| a < b), "the order of tokens: {:?}", self.tokens);
    }

    fn choose(&mut self, random: &mut fastrand::Rng) -> Operation {
        let session = random.usize(0..3);
        let campaigns = random.bool();
        if campaigns && random.bool() {
            self.attempts[session] += 1;
        }
        let latest = self.attempts[session];
        let attempt = if random.u8(0..6) == 0 { latest.saturating_sub(1) } else { latest };
        let session = session as u128 + 1;
        let known: Vec<Token> = self.tokens.keys().copied().collect();
        let token = known[random.usize(known.len().saturating_sub(3)..known.len())];
        if campaigns {
            return Operation::Campaign(unguarded(session, attempt));
        }
        match random.u8(0..16) {
            0..=7 => {
                let mut request = RenewRequest { guard: false, ..renewal(session, attempt, token) };
                // Of what nobody holds the reference takes any candidate's word for a token; there is none who has
                // another's.
                let vanished = self.api.lease(&self.name()).is_none_or(|lease| lease["spec"]["holderIdentity"] == "");
                if let Some(owner) = self.owners.get(&token).filter(|_| vanished) {
                    request.candidate = *owner;
                    request.identity = unguarded_identity(*owner);
                }
                Operation::Renew(request)
            }
            8..=12 => {
                let token = if random.bool() { token } else { Token::NONE };
                Operation::Release(giving_back(session, attempt, token))
            }
            13..=14 => Operation::NameVanishes,
            _ => Operation::EverythingForgotten,
        }
    }

    async fn apply(&mut self, operation: &Operation) {
        self.clock += 1_000;
        let server = Server { now: StoreTime(self.clock), uptime: Duration::from_secs(86_400), generation: "one" };
        match operation {
            Operation::Campaign(request) => self.campaign(request, server).await,
            Operation::Renew(request) => self.renew(request, server).await,
            Operation::Release(request) => {
                let ours = self.store.release(&self.role, request.clone()).await.expect("an answer").reply;
                let twin = ReleaseRequest { token: self.tokens[&request.token], ..request.clone() };
                assert_eq!(ours, self.cell.release(server, &twin).0);
                self.saw(if ours == ReleaseReply::Released { "released" } else { "not held" });
            }
            Operation::NameVanishes => {
                let held = self.api.lease(&self.name()).is_some_and(|lease| lease["spec"]["holderIdentity"] != "");
                if held {
                    self.api.edit(&self.name(), |lease| lease["spec"]["holderIdentity"] = "".into());
                    self.cell.evict_lease();
                }
            }
            Operation::EverythingForgotten => {
                self.api.delete(&self.name());
                self.store = self.api.store();
                self.cell.forget();
            }
        }
    }

    async fn campaign(&mut self, request: &CampaignRequest, server: Server<'_>) {
        use CampaignReply::{Granted, Held, Stale};
        // A store that forgot all starts from the clock again, as the reference does.
        let ours = self.store.campaign(&self.role, request.clone()).await.expect("an answer").reply;
        let (theirs, _) = self.cell.campaign(server, request).expect("tokens are left");
        match (ours, theirs) {
            (Granted { token, .. }, Granted { token: t, .. }) => {
                self.owners.insert(token, request.candidate);
                self.same_token(token, t);
                self.saw("granted");
            }
            (Held { holder, token, .. }, Held { holder: h, token: t, .. }) => {
                self.same_token(token, t);
                assert_eq!(holder, h);
                self.saw("held");
            }
            (Stale { token, .. }, Stale { token: t, .. }) => {
                self.same_token(token, t);
                self.saw("stale");
            }
            (ours, theirs) => panic!("the store: {ours:?}; the reference: {theirs:?}"),
        }
    }

    async fn renew(&mut self, request: &RenewRequest, server: Server<'_>) {
        let ours = self.store.renew(&self.role, request.clone()).await.expect("an answer").reply;
        let twin = RenewRequest { token: self.tokens[&request.token], ..request.clone() };
        let (theirs, _) = self.cell.renew(server, &twin);
        match (ours, theirs) {
            (RenewReply::Renewed { reasserted, .. }, RenewReply::Renewed { reasserted: r, .. }) => {
                assert_eq!(reasserted, r);
                self.saw(if reasserted { "reasserted" } else { "renewed" });
            }
            (RenewReply::Lost { token, holder }, RenewReply::Lost { token: t, holder: h }) => {
                self.same_token(token, t);
                assert_eq!(holder, h);
                self.saw("lost");
            }
            (ours, theirs) => panic!("the store: {ours:?}; the reference: {theirs:?}"),
        }
    }
}

/// The name of a candidate's process.
fn unguarded_identity(candidate: Candidate) -> Arc<str> {
    let session: u128 = u128::from_str_radix(&candidate.session.to_string(), 16).expect("hexadecimal");
    unguarded(session, candidate.attempt.0).identity
}

#[tokio::test]
async fn random_operations_have_the_same_outcomes_on_a_kubernetes_api_and_on_the_reference() {
    let api = LeaseApi::start();
    let mut seen = BTreeMap::new();
    for seed in 0..SEEDS {
        let mut pair = Pair {
            api: &api,
            store: api.store(),
            role: RoleName::new(format!("seed-{seed}")).expect("a DNS label"),
            cell: LeaseCell::new(Rules { generation: false, ..Rules::KUBERNETES }),
            clock: 1_000,
            tokens: BTreeMap::from([(Token::NONE, Token::NONE)]),
            attempts: [0; 3],
            owners: BTreeMap::new(),
            seen: &mut seen,
        };
        let mut random = fastrand::Rng::with_seed(seed);
        for step in 0..OPERATIONS {
            let operation = pair.choose(&mut random);
            eprintln!("seed {seed}, {step}: {operation:?}");
            pair.apply(&operation).await;
        }
    }
    for outcome in ["granted", "held", "stale", "released", "not held", "renewed", "reasserted", "lost"] {
        assert!(seen.get(outcome).is_some_and(|times| *times >= 20), "{outcome} was hardly met: {seen:?}");
    }
}
