//! Where a name leads at this moment. A failover may change that, so it is looked up for every connection and kept
//! nowhere: an address of yesterday may be another's server today.

use std::net::SocketAddr;
use std::time::Duration;

use parking_lot::Mutex;

use super::cluster::NodeAddress;
use crate::store::StoreError;

/// More are not remembered: those of a name that has one address at a time pile up.
const PASSED_OVER_MAX: usize = 32;

/// Which of a name's addresses were of no use, the latest last. They are tried after the others: one that swallows
/// whatever it is sent takes all the time of an attempt, so that none would come to the next address.
#[derive(Default)]
pub struct PassedOver(Mutex<Vec<SocketAddr>>);

impl PassedOver {
    /// This one was of no use.
    pub fn add(&self, address: SocketAddr) {
        let mut passed_over = self.0.lock();
        passed_over.retain(|known| *known != address);
        if passed_over.len() == PASSED_OVER_MAX {
            passed_over.remove(0);
        }
        passed_over.push(address);
    }

    /// Puts those last that were of no use, and forgets those that the name no longer has.
    fn order(&self, addresses: &mut [SocketAddr]) {
        let mut passed_over = self.0.lock();
        passed_over.retain(|known| addresses.contains(known));
        addresses.sort_by_key(|address| passed_over.iter().position(|known| known == address).map_or(0, |at| at + 1));
    }
}

/// The addresses of a host, the most promising first.
///
/// # Errors
/// [`StoreError::Unreachable`] when the name leads nowhere, or is not looked up within `timeout`.
pub async fn look_up(
    node: &NodeAddress,
    passed_over: &PassedOver,
    timeout: Duration,
) -> Result<Vec<SocketAddr>, StoreError> {
    let unreachable = |why: String| StoreError::Unreachable { reason: format!("{node}: {why}: {SEE_DNS}") };
    let looked_up = tokio::time::timeout(timeout, tokio::net::lookup_host((node.name(), node.port))).await;
    let mut addresses: Vec<SocketAddr> = match looked_up {
        Ok(Ok(addresses)) => addresses.collect(),
        Ok(Err(error)) => return Err(unreachable(error.to_string())),
        Err(_) => return Err(unreachable(format!("its name was not looked up within {timeout:?}"))),
    };
    if addresses.len() > 1 {
        passed_over.order(&mut addresses);
    }
    Ok(addresses)
}

const SEE_DNS: &str = "see the host in the URL, and DNS";

#[cfg(test)]
mod tests {
    use super::*;

    fn at(number: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, number], 6379))
    }

    #[test]
    fn the_address_that_failed_last_is_tried_last_in_whatever_order_they_are_told() {
        let passed_over = PassedOver::default();
        let ordered = |mut addresses: Vec<SocketAddr>| {
            passed_over.order(&mut addresses);
            addresses
        };
        assert_eq!(ordered(vec![at(2), at(1), at(3)]), [at(2), at(1), at(3)]);
        passed_over.add(at(1));
        passed_over.add(at(2));
        passed_over.add(at(2));
        assert_eq!(ordered(vec![at(1), at(2), at(3)]), [at(3), at(1), at(2)]);
        assert_eq!(ordered(vec![at(2), at(3), at(1)]), [at(3), at(1), at(2)]);
        passed_over.add(at(1));
        assert_eq!(ordered(vec![at(1), at(2)]), [at(2), at(1)]);
        assert_eq!(ordered(vec![at(4)]), [at(4)]);
        assert_eq!(ordered(vec![at(1), at(2)]), [at(1), at(2)], "they had left the name");
    }

    #[tokio::test]
    async fn a_literal_address_leads_to_itself() {
        for (host, ip) in [("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("[::1]", "::1")] {
            let node = NodeAddress { host: host.to_owned(), port: 6379 };
            let found = look_up(&node, &PassedOver::default(), Duration::from_secs(1)).await.unwrap();
            assert_eq!(found, [SocketAddr::new(ip.parse().unwrap(), 6379)]);
        }
    }
}
