//! Tells what happens to the replicas, one line a change.

use std::sync::Arc;

use baton::base::clock::wall_time;
use baton::protocol::State;
use baton::role::{RoleHandle, Roles, Snapshot};
use tokio::task::JoinSet;

use super::super::output::say;

/// Prints one line: `12:00:01.234Z  scheduler  dev-1 leads (token 17636…)`. Without a role it is about the replica.
pub fn tell(role: &str, what: impl std::fmt::Display) {
    // When nobody reads, the replicas go on all the same.
    say(format_args!("{}  {role:<9}  {what}", wall_time().strftime("%H:%M:%S%.3fZ")));
}

/// Tells every change of a replica's roles, in tasks that end with the replica.
pub fn follow(tasks: &mut JoinSet<()>, replica: &str, roles: &Roles) {
    for role in roles.all() {
        let replica = replica.to_owned();
        tasks.spawn(async move { follow_role(&replica, role).await });
    }
}

async fn follow_role(replica: &str, role: RoleHandle) {
    let mut changes = role.changes();
    let mut last: Option<Arc<Snapshot>> = None;
    loop {
        let now = Arc::clone(&changes.borrow_and_update());
        let token = role.remaining().map(|(token, _)| token.get());
        if let Some(words) = words(replica, last.as_deref(), &now, token) {
            tell(role.name().as_str(), format_args!("{replica} {words}"));
        }
        last = Some(now);
        // An error means that the replica has ended; whoever ended it tells.
        if changes.changed().await.is_err() {
            return;
        }
    }
}

/// What is worth telling of a change. Looking for a leader is not: it happens to everyone at every handover.
fn words(replica: &str, last: Option<&Snapshot>, now: &Snapshot, token: Option<u64>) -> Option<String> {
    let holder = |snapshot: &Snapshot| snapshot.view.holder.as_ref().map(|(name, _)| Arc::clone(name));
    let was = last.map(|last| last.view.state);
    let reason = || now.view.reason.clone().unwrap_or("for no reason that it knows".into());
    match now.view.state {
        State::Draining if was == Some(State::Draining) => None,
        // Without promises to wait for, the lease is given back before it could be told why.
        State::Draining => Some(match reason().strip_prefix("handing over: ") {
            Some(why) => format!("hands over: {why}"),
            None => "hands over at once".to_owned(),
        }),
        State::Leading => Some(match token {
            Some(token) => format!("leads (token {token})"),
            None => "leads".to_owned(),
        }),
        _ if was == Some(State::Leading) => Some(format!("leads no more: {}", reason())),
        State::Standby => match holder(now) {
            Some(name) if last.and_then(holder).as_ref() == Some(&name) => None,
            Some(name) if &*name == replica => Some("waits: the lease of the one before it still stands".to_owned()),
            Some(name) => Some(format!("follows {name}")),
            None => None,
        },
        State::Campaigning => None,
        state @ (State::Unhealthy | State::Unreachable | State::Guarded) => {
            (was != Some(state)).then(|| format!("is {state}: {}", reason()))
        }
    }
}

#[cfg(test)]
mod tests {
    use baton::protocol::{Mono, View};
    use jiff::Timestamp;

    use super::*;

    fn snapshot(state: State, holder: Option<&str>, reason: Option<&str>) -> Snapshot {
        let holder = holder.map(|name| (Arc::from(name), Mono::default()));
        let view = View { state, holder, reason: reason.map(|reason| reason.to_owned().into()), stays_out: false };
        Snapshot::first(view, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn a_handover_is_told_in_the_words_of_those_who_do_it() {
        let leading = snapshot(State::Leading, Some("dev-0"), None);
        let draining = snapshot(State::Draining, Some("dev-0"), Some("handing over: resigned"));
        let releasing = snapshot(State::Draining, None, Some("giving the lease back"));
        let out = snapshot(State::Standby, None, Some("this replica stays out for a while"));
        let following = snapshot(State::Standby, Some("dev-1"), Some("dev-1 leads"));
        let story = [
            words("dev-0", None, &snapshot(State::Campaigning, None, Some("asking")), None),
            words("dev-0", None, &leading, Some(7)),
            words("dev-0", Some(&leading), &draining, None),
            words("dev-0", Some(&draining), &releasing, None),
            words("dev-0", Some(&releasing), &out, None),
            words("dev-0", Some(&out), &following, None),
            words("dev-0", Some(&following), &following, None),
            words("dev-0", Some(&leading), &releasing, None),
        ];
        let wanted = [
            None,
            Some("leads (token 7)"),
            Some("hands over: resigned"),
            None,
            None,
            Some("follows dev-1"),
            None,
            Some("hands over at once"),
        ];
        assert_eq!(story.each_ref().map(Option::as_deref), wanted);
    }

    #[test]
    fn a_lost_lease_and_a_silent_store_are_told_once() {
        let leading = snapshot(State::Leading, Some("dev-0"), None);
        let lost = snapshot(State::Unreachable, None, Some("no answer"));
        assert_eq!(words("dev-0", Some(&leading), &lost, None).as_deref(), Some("leads no more: no answer"));
        assert_eq!(words("dev-0", Some(&lost), &lost, None), None);
        assert_eq!(words("dev-0", None, &lost, None).as_deref(), Some("is unreachable: no answer"));
    }
}
