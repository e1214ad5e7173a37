//! Where Alertmanager hands its alerts to.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use serde_json::Value;

/// See the module. Its thread ends with the process.
pub struct Webhook {
    pub address: SocketAddr,
    alerts: Arc<Mutex<Vec<Value>>>,
}

impl Webhook {
    /// Listens from now on.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("its address");
        let alerts = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&alerts);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // What breaks off is sent again.
                if let Some(body) = receive(stream) {
                    let new = body["alerts"].as_array().cloned().unwrap_or_default();
                    heard.lock().unwrap_or_else(PoisonError::into_inner).extend(new);
                }
            }
        });
        Self { address, alerts }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Value>> {
        self.alerts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every alert that came so far, as Alertmanager tells it.
    pub fn alerts(&self) -> Vec<Value> {
        self.lock().clone()
    }
}

fn receive(stream: TcpStream) -> Option<Value> {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').unwrap_or_default();
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    reader.get_mut().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").ok()?;
    serde_json::from_slice(&body).ok()
}
