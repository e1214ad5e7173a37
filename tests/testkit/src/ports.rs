//! Ports that a test gives to the processes it starts.
//!
//! Not what the system gives for port 0: once let go of, that may go to the next who asks, or to a connection that goes
//! out meanwhile, before the process that it is for has bound it.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// Linux gives ports from 32768 on by itself, and the nodes of a Redis Cluster talk to each other 10,000 further up.
const FIRST: u16 = 10_000;
const COUNT: u16 = 10_000;

/// A port of 127.0.0.1 that nobody listens on at the moment, that this process gets once only, and that the system
/// gives to nobody by itself.
///
/// # Panics
/// When none of them is free.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Where another test program of this machine does not begin.
    let begin = std::process::id() % u32::from(COUNT) * 97;
    let next = || FIRST + ((begin + u32::from(NEXT.fetch_add(1, Ordering::Relaxed))) % u32::from(COUNT)) as u16;
    let mut ports = std::iter::repeat_with(next).take(COUNT.into());
    ports.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).expect("a free port")
}
