//! Carries a round's questions to the members and their answers back.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::task::JoinHandle;

use super::Quorum;
use crate::base::clock::{BootClock, Clock};
use crate::protocol::{MemberReply, MemberRequest, NoReply, RoleName, Round, RoundStep};
use crate::store::{CONNECT_PATIENCE, Purge, StoreError, StoreHealth};

/// Who takes so many times longer than a quorum of the others did is slow…
const SLOW: u32 = 3;
/// … and so much longer at least.
const SLOW_MIN: Duration = Duration::from_millis(2);

/// Runs a round to its end. Answers that come later are nobody's; the questions themselves are never cut short.
///
/// # Errors
/// What the round failed of: [`StoreError::Unreachable`] when some members did not answer, [`StoreError::Refused`] when
/// all did, but not as was needed.
pub(super) async fn drive<R: Round>(
    quorum: &Arc<Quorum>,
    role: &RoleName,
    mut round: R,
) -> Result<R::Reply, StoreError> {
    let mut answers = FuturesUnordered::new();
    let mut some_are_silent = false;
    let began = BootClock.now();
    let (mut quorum_took, mut hurried) = (None, false);
    let mut out = BTreeSet::new();
    loop {
        while let Some(step) = round.poll() {
            match step {
                RoundStep::Ask { ballot, to, ask } => {
                    let ask = Arc::new(ask);
                    for member in to {
                        out.insert(member);
                        let asked = question(quorum, role, member, &ask);
                        let timeout = quorum.timeout;
                        answers.push(async move { (ballot, member, answer(asked, timeout).await) });
                    }
                }
                RoundStep::Tell { to, ask } => {
                    let ask = Arc::new(ask);
                    // Without its handle a task runs on.
                    to.into_iter().for_each(|member| drop(question(quorum, role, member, &ask)));
                }
                RoundStep::Done(Ok(reply)) => return Ok(reply),
                RoundStep::Done(Err(NoReply { reason, .. })) if some_are_silent => {
                    return Err(StoreError::Unreachable { reason });
                }
                RoundStep::Done(Err(NoReply { reason, .. })) => return Err(StoreError::Refused { reason }),
            }
        }
        let mut late_at = None;
        if !hurried && round.has_a_quorum() {
            let took = *quorum_took.get_or_insert_with(|| BootClock.now().since(began));
            let patience = took + (took * SLOW).max(SLOW_MIN);
            // Who was late the last time is not waited for.
            if out.iter().all(|member| quorum.is_slower(*member, patience)) {
                hurried = true;
                round.hurry();
                continue;
            }
            late_at = Some(began + patience);
        }
        let next = match late_at {
            Some(at) => match tokio::time::timeout(at.since(BootClock.now()), answers.next()).await {
                Ok(next) => next,
                Err(_) => {
                    hurried = true;
                    round.hurry();
                    continue;
                }
            },
            None => answers.next().await,
        };
        let Some((ballot, member, vote)) = next else {
            // Only a round that asks nobody and does not end either; nobody shall wait for it.
            return Err(StoreError::Unreachable { reason: "no member is left to answer".to_owned() });
        };
        out.remove(&member);
        some_are_silent |= matches!(vote, Err(StoreError::Unknown { .. } | StoreError::Unreachable { .. }));
        round.answered(ballot, member, vote.map_err(|error| NoReply::new(quorum.describe(member, &error))));
    }
}

/// Asks a member, in a task of its own that nobody ends.
fn question(
    quorum: &Arc<Quorum>,
    role: &RoleName,
    member: usize,
    ask: &Arc<MemberRequest>,
) -> JoinHandle<Result<MemberReply, StoreError>> {
    let (quorum, role, ask) = (Arc::clone(quorum), role.clone(), Arc::clone(ask));
    tokio::spawn(async move {
        match quorum.twin(member) {
            Some(error) => Err(error),
            None => {
                let began = BootClock.now();
                let answer = quorum.members[member].ask(&role, &ask).await;
                quorum.note_pace(member, BootClock.now().since(began));
                quorum.refusals.note(member, &role, &ask, &answer);
                answer
            }
        }
    })
}

/// Waits for a member's answer, but not for ever.
async fn answer(
    asked: JoinHandle<Result<MemberReply, StoreError>>,
    timeout: Duration,
) -> Result<MemberReply, StoreError> {
    match tokio::time::timeout(timeout, asked).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => Err(StoreError::Unreachable { reason: "the question was dropped".to_owned() }),
        Err(_) => Err(StoreError::Unknown { after: timeout }),
    }
}

/// Forgets a role on every member.
///
/// # Errors
/// When a member does not answer, or refuses; the others have forgotten it then. Doing it again does no harm.
pub(super) async fn purge(quorum: &Quorum, role: &RoleName) -> Result<Purge, StoreError> {
    let purges = quorum.members.iter().map(|member| async {
        let mut health = member.health();
        // One that is only being connected to is waited for; one that is down answers with the reason.
        let up = health.wait_for(|health| *health == StoreHealth::Up);
        let _ = tokio::time::timeout(CONNECT_PATIENCE, up).await;
        member.purge(role).await
    });
    let outcomes = futures_util::future::join_all(purges).await;
    if outcomes.contains(&Ok(Purge::InUse)) {
        return Ok(Purge::InUse);
    }
    let failed: Vec<String> = outcomes
        .iter()
        .enumerate()
        .filter_map(|(member, outcome)| outcome.as_ref().err().map(|error| quorum.describe(member, error)))
        .collect();
    if !failed.is_empty() {
        let (count, members) = (failed.len(), quorum.members.len());
        let reason = format!("{count} of {members} members have not forgotten {role}: {}", failed.join("; "));
        return Err(StoreError::Unreachable { reason });
    }
    let purged = outcomes.contains(&Ok(Purge::Purged));
    Ok(if purged { Purge::Purged } else { Purge::Absent })
}
