//! How the members are, put together: whether there is a quorum, and who is missing.

use parking_lot::Mutex;
use std::sync::Arc;

use futures_util::future::select_all;
use tokio::sync::watch;

use super::Quorum;
use crate::base::{Complaint, Turn};
use crate::store::{StoreError, StoreHealth, push_change};

/// What is known of the quorum.
pub(super) struct QuorumStatus {
    pub(super) health: watch::Sender<StoreHealth>,
    /// Which members count.
    pub(super) members: watch::Sender<Vec<bool>>,
    /// Who is missing although there is a quorum.
    missing: Mutex<Complaint>,
}

impl QuorumStatus {
    pub(super) fn new(members: usize) -> Self {
        let health = StoreHealth::Down { reason: "not connected yet".to_owned() };
        Self {
            health: watch::Sender::new(health),
            members: watch::Sender::new(vec![false; members]),
            missing: Mutex::default(),
        }
    }

    pub(super) fn missing(&self) -> Option<String> {
        self.missing.lock().reason().map(str::to_owned)
    }

    /// Logged once per change.
    fn miss(&self, missing: Option<String>) {
        match self.missing.lock().note(missing) {
            Some(Turn::Wrong(note)) => tracing::warn!(note, "the quorum works, with a reservation"),
            Some(Turn::Well) => tracing::info!("every member of the quorum is back"),
            None => {}
        }
    }

    fn update(&self, quorum: &Quorum, troubles: &[Option<StoreError>], settled: bool) {
        let members = quorum.seats.places();
        let up = || (0..members).filter(|member| quorum.cannot_count(*member).is_none());
        push_change(&self.members, troubles.iter().map(Option::is_none).collect());
        let told: Vec<String> = troubles
            .iter()
            .enumerate()
            .filter_map(|(member, trouble)| trouble.as_ref().map(|trouble| quorum.describe(member, trouble)))
            .collect();
        let health = if quorum.seats.are_enough(up()) {
            let missing = match told.len() {
                0 => None,
                1 => Some(format!("1 of {members} members is missing: {}", told[0])),
                count => Some(format!("{count} of {members} members are missing: {}", told.join("; "))),
            };
            // Those that are only being connected to are not missed yet.
            self.miss(missing.filter(|_| settled));
            StoreHealth::Up
        } else if settled {
            let reason = format!("{}: {}", quorum.seats.tell(up(), "answer"), told.join("; "));
            StoreHealth::Down { reason }
        } else {
            return;
        };
        push_change(&self.health, health);
    }
}

/// Runs until it is aborted.
pub(super) async fn run(quorum: Arc<Quorum>, status: Arc<QuorumStatus>) {
    let mut healths: Vec<watch::Receiver<StoreHealth>> = quorum.members.iter().map(|member| member.health()).collect();
    // Until each member has said something, or had the time to, being down is no news.
    let mut silent = vec![true; healths.len()];
    let mut first_time = std::pin::pin!(tokio::time::sleep(quorum.timeout * 2));
    let mut settled = false;
    loop {
        for (health, silent) in healths.iter_mut().zip(&mut silent) {
            *silent &= *health.borrow_and_update() != StoreHealth::Up;
        }
        let troubles: Vec<Option<StoreError>> = (0..healths.len()).map(|member| quorum.why_not(member)).collect();
        settled |= !silent.contains(&true);
        status.update(&quorum, &troubles, settled);
        let changes = select_all(healths.iter_mut().map(|health| Box::pin(health.changed())));
        tokio::select! {
            (changed, member, _) = changes => {
                silent[member] = false;
                if changed.is_err() {
                    // A member's connection is never given up while there is a member.
                    return;
                }
            }
            () = quorum.refusals.changed() => {}
            () = &mut first_time, if !settled => settled = true,
        }
    }
}
