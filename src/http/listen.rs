//! A listening socket.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use rustix::io::Errno;
use socket2_fred::{Domain, Socket, Type};

/// As many may have connected before they are accepted; the kernel's own bound is `net.core.somaxconn`.
const BACKLOG: i32 = 1024;

/// Listens on an address. `[::]` is for both families, however the system has it for others; and for IPv4 alone where
/// the system has no IPv6.
///
/// # Errors
/// When the address is taken, is not of this machine, or may not be used.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    open(address).or_else(|error| match or_ipv4(address, &error) {
        Some(address) => open(address),
        None => Err(error),
    })
}

fn open(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    if address.is_ipv6() && address.ip().is_unspecified() {
        socket.set_only_v6(false)?;
    }
    // A process that has just ended left connections that still close: its successor need not wait for them.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// What stands in for an address that failed so.
fn or_ipv4(address: SocketAddr, error: &io::Error) -> Option<SocketAddr> {
    let has_none = [Errno::AFNOSUPPORT, Errno::ADDRNOTAVAIL].contains(&Errno::from_io_error(error)?);
    (has_none && address.is_ipv6() && address.ip().is_unspecified())
        .then(|| (Ipv4Addr::UNSPECIFIED, address.port()).into())
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn all_addresses_are_those_of_both_families_or_of_ipv4_where_there_is_no_other() {
        let none = io::Error::from(Errno::AFNOSUPPORT);
        let taken = io::Error::from(Errno::ADDRINUSE);
        let all: SocketAddr = "[::]:4041".parse().unwrap();
        assert_eq!(or_ipv4(all, &none), Some("0.0.0.0:4041".parse().unwrap()));
        assert_eq!(or_ipv4(all, &taken), None, "somebody else's port is no reason");
        assert_eq!(or_ipv4("[::1]:4041".parse().unwrap(), &none), None, "asked for by its address");
        let listener = listen("[::]:0".parse().unwrap()).unwrap();
        let port = listener.local_addr().unwrap().port();
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        if listener.local_addr().unwrap().is_ipv6() {
            TcpStream::connect((std::net::Ipv6Addr::LOCALHOST, port)).unwrap();
        }
    }
}
