//! Sentinel and Cluster: the same store, another URL.

use std::io::Write;

use super::support::redis::{Data, RedisServer, free_port};
use super::support::resp::{Connection, Reply};
use super::support::{wait_until, wait_until_async};
use super::*;

/// A Sentinel that watches one master; killed when dropped.
struct Sentinel {
    child: std::process::Child,
    port: u16,
    _dir: tempfile::TempDir,
}

impl Sentinel {
    fn start(master: &RedisServer) -> Self {
        let (port, dir) = (free_port(), tempfile::tempdir().expect("a directory"));
        let path = dir.path().join("sentinel.conf");
        let mut file = std::fs::File::create(&path).expect("a file");
        let lines = format!(
            "port {port}\nbind 127.0.0.1\ndir {}\nsentinel monitor main 127.0.0.1 {} 1\n\
             sentinel down-after-milliseconds main 500\nsentinel failover-timeout main 5000\n",
            dir.path().display(),
            master.port(),
        );
        file.write_all(lines.as_bytes()).expect("written");
        let child = std::process::Command::new("redis-server")
            .arg(&path)
            .arg("--sentinel")
            .stdout(std::process::Stdio::null())
            .spawn()
            .expect("redis-server is installed by `make test`");
        Self { child, port, _dir: dir }
    }

    fn command(&self, words: &[&str]) -> Option<Reply> {
        Connection::open(self.port).and_then(|mut connection| connection.command(words)).ok()
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn a_failover_by_sentinel_is_followed_and_the_incumbent_stays() {
    let mut master = RedisServer::start_with(&["--repl-diskless-sync-delay", "0"]);
    let replica = RedisServer::start_with(&["--replicaof", "127.0.0.1", &master.port().to_string()]);
    let sentinel = Sentinel::start(&master);
    wait_until(BOUND, "the Sentinel knows of the replica", || {
        match sentinel.command(&["SENTINEL", "REPLICAS", "main"]) {
            Some(Reply::List(replicas)) => !replicas.is_empty(),
            _ => false,
        }
    })
    .await;
    let url = format!("redis-sentinel://127.0.0.1:{}/0?sentinelServiceName=main", sentinel.port);
    let store = connected(&url).await;
    let (token, _) = win(&store, unguarded(1, 1)).await;
    master.stop(Data::Lost);
    wait_until_async(Duration::from_secs(60), "renewed at the new master", async || {
        matches!(store.renew(&role(), renewal(1, 1, token)).await.map(|r| r.reply), Ok(RenewReply::Renewed { .. }))
    })
    .await;
    assert_eq!(replica.command(&["HGET", "baton:{scheduler}:lease", "token"]).text(), token.to_string());
}

#[tokio::test]
async fn a_cluster_works_with_its_url() {
    let node = RedisServer::start_with(&["--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1"]);
    assert_eq!(node.command(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]), Reply::Text("OK".to_owned()));
    wait_until(BOUND, "the cluster is ok", || node.command(&["CLUSTER", "INFO"]).text().contains("cluster_state:ok"))
        .await;
    let store = connected(&format!("redis-cluster://127.0.0.1:{}", node.port())).await;
    let mut news = store.listen(&role());
    assert_eq!(within("a gap", news.recv()).await, Some(baton::store::News::Gap));
    let (token, _) = win(&store, unguarded(1, 1)).await;
    assert!(matches!(within("news", news.recv()).await, Some(baton::store::News::Said(_))));
    assert!(matches!(renew(&store, renewal(1, 1, token)).await, RenewReply::Renewed { .. }));
}
