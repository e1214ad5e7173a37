//! A Lease as a person has left it: what its leader is told, and that nobody new leads before the leader has stopped.

use baton::protocol::GuardCause;
use serde_json::{Value, json};

use super::*;

const NAME: &str = "baton-scheduler";

/// What its leader's next renewal comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Renewal {
    Goes,
    PutsBack,
    IsLost,
    /// It names what is damaged.
    Names(&'static str),
}

/// What others are told at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Others {
    /// That this one has it.
    Held(&'static str),
    /// That they have to watch for a lease.
    Guarded,
    Names(&'static str),
}

type Edit = fn(&mut Value);

const EDITS: [(&str, Edit, Renewal, Others); 22] = [
    ("nothing", |_| {}, Renewal::Goes, Others::Held("web-1")),
    ("a label", |lease| lease["metadata"]["labels"] = json!({"a": "b"}), Renewal::Goes, Others::Held("web-1")),
    ("holder empty", |lease| set(lease, "holderIdentity", json!("")), Renewal::PutsBack, Others::Guarded),
    ("holder absent", |lease| set(lease, "holderIdentity", Value::Null), Renewal::PutsBack, Others::Guarded),
    ("no spec", |lease| lease["spec"] = Value::Null, Renewal::PutsBack, Others::Guarded),
    ("holder a person", |lease| set(lease, "holderIdentity", json!("ann")), Renewal::IsLost, Others::Held("ann")),
    (
        "holder a person for a second",
        |lease| {
            set(lease, "holderIdentity", json!("ann"));
            set(lease, "leaseDurationSeconds", json!(1));
        },
        Renewal::IsLost,
        Others::Held("ann"),
    ),
    ("duration 0", |lease| set(lease, "leaseDurationSeconds", json!(0)), Renewal::Goes, Others::Held("web-1")),
    ("duration absent", |lease| set(lease, "leaseDurationSeconds", Value::Null), Renewal::Goes, Others::Held("web-1")),
    ("duration negative", |lease| set(lease, "leaseDurationSeconds", json!(-5)), Renewal::Goes, Others::Held("web-1")),
    ("duration 1", |lease| set(lease, "leaseDurationSeconds", json!(1)), Renewal::Goes, Others::Held("web-1")),
    (
        "renewed in the future",
        |lease| set(lease, "renewTime", json!("2999-01-01T00:00:00.000000Z")),
        Renewal::IsLost,
        Others::Held("web-1"),
    ),
    ("never renewed", |lease| set(lease, "renewTime", Value::Null), Renewal::IsLost, Others::Held("web-1")),
    ("transitions absent", |lease| set(lease, "leaseTransitions", Value::Null), Renewal::Goes, Others::Held("web-1")),
    ("transitions negative", |lease| set(lease, "leaseTransitions", json!(-1)), Renewal::Goes, Others::Held("web-1")),
    ("no annotations", without_annotations, Renewal::IsLost, Others::Held("web-1")),
    (
        "another object of that name, for a second",
        |lease| {
            without_annotations(lease);
            lease["spec"] = json!({"holderIdentity": "ann", "leaseDurationSeconds": 1});
        },
        Renewal::IsLost,
        Others::Held("ann"),
    ),
    (
        "no annotations and no holder",
        |lease| {
            without_annotations(lease);
            set(lease, "holderIdentity", json!(""));
        },
        Renewal::PutsBack,
        Others::Guarded,
    ),
    ("no token", |lease| annotate(lease, "token", Value::Null), names("token is missing"), told("token is missing")),
    ("a garbled session", |lease| annotate(lease, "session", json!("x")), names("session"), told("session")),
    ("a lease of nothing", |lease| annotate(lease, "lease-duration-ms", json!("0")), names("is 0"), told("is 0")),
    (
        "a lease of ages",
        |lease| annotate(lease, "lease-duration-ms", json!("99999999999999")),
        names("lease-duration-ms"),
        told("lease-duration-ms"),
    ),
];

const fn names(what: &'static str) -> Renewal {
    Renewal::Names(what)
}

const fn told(what: &'static str) -> Others {
    Others::Names(what)
}

/// An absent field is what a null is.
fn set(lease: &mut Value, field: &str, value: Value) {
    lease["spec"][field] = value;
}

fn annotate(lease: &mut Value, key: &str, value: Value) {
    let annotations = lease["metadata"]["annotations"].as_object_mut().expect("it has some");
    let key = format!("baton.dev/{key}");
    match value {
        Value::Null => drop(annotations.remove(&key).expect("it was there")),
        value => drop(annotations.insert(key, value).expect("it was there")),
    }
}

fn without_annotations(lease: &mut Value) {
    lease["metadata"].as_object_mut().expect("an object").remove("annotations");
}

async fn leader_of(api: &FakeApi) -> (KubernetesStore, Token) {
    let store = leases_of(api);
    match store.campaign(&role(), unguarded(1, 1)).await.map(|stamped| stamped.reply) {
        Ok(CampaignReply::Granted { token, .. }) => (store, token),
        other => panic!("not granted: {other:?}"),
    }
}

fn is_named<T: std::fmt::Debug>(answered: Result<T, StoreError>, what: &str) -> bool {
    matches!(answered, Err(StoreError::Garbage { why, .. }) if why.contains(what))
}

#[tokio::test]
async fn the_leader_is_told_what_became_of_its_lease_and_nobody_else_is_let_in_early() {
    for (what, edit, renewal_expected, others_expected) in EDITS {
        let api = FakeApi::start();
        let (leader, token) = leader_of(&api).await;
        // One that has seen the term, and one that has not.
        let (witness, newcomer) = (leases_of(&api), leases_of(&api));
        let seen = witness.campaign(&role(), ask(2, 1)).await.expect("an answer").reply;
        assert!(matches!(seen, CampaignReply::Held { .. }), "{what}: {seen:?}");
        api.edit(NAME, edit);
        // A newcomer cannot know of a term of which nothing is left.
        let gone = what == "another object of that name, for a second";
        for (store, who) in [(&witness, 2), (&newcomer, 3)].into_iter().take(if gone { 1 } else { 2 }) {
            let answered = store.campaign(&role(), ask(who, 2)).await.map(|stamped| stamped.reply);
            let fits = match (&answered, others_expected) {
                (Ok(CampaignReply::Held { holder, remaining, .. }), Others::Held(name)) => {
                    // For as long as its holder may count on it.
                    &*holder.identity == name && *remaining > LEASE - ms(5_000)
                }
                (Ok(CampaignReply::Guarded { cause: GuardCause::Vanished, remaining, .. }), Others::Guarded) => {
                    *remaining > LEASE - ms(5_000)
                }
                (Err(_), Others::Names(what)) => is_named(answered.clone(), what),
                _ => false,
            };
            assert!(fits, "{what}: {who} was told {answered:?}");
        }
        let answered = leader.renew(&role(), renewal(1, 1, token)).await.map(|stamped| stamped.reply);
        let fits = match (&answered, renewal_expected) {
            (Ok(RenewReply::Renewed { reasserted, .. }), Renewal::Goes) => !reasserted,
            (Ok(RenewReply::Renewed { reasserted, .. }), Renewal::PutsBack) => *reasserted,
            (Ok(RenewReply::Lost { .. }), Renewal::IsLost) => true,
            (Err(_), Renewal::Names(what)) => is_named(answered.clone(), what),
            _ => false,
        };
        assert!(fits, "{what}: its leader was told {answered:?}");
    }
}

#[tokio::test]
async fn a_stranger_that_says_no_time_is_waited_for_as_long_as_a_lease() {
    for seconds in [Value::Null, json!(0), json!(-1)] {
        let api = FakeApi::start();
        api.edit(NAME, |lease| {
            lease["spec"] = json!({"holderIdentity": "ann", "leaseDurationSeconds": seconds});
        });
        let reply = leases_of(&api).campaign(&role(), ask(1, 1)).await.expect("an answer").reply;
        assert!(
            matches!(&reply, CampaignReply::Held { remaining, .. } if *remaining > LEASE - ms(5_000)),
            "{seconds}: {reply:?}"
        );
    }
}
