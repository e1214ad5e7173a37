//! docs/compatibility.md: what real sidecars do on this server (`BATON_REDIS_SERVER`), and behind what services say
//! that they refuse. `make compat` runs it on every server, and writes the page.

mod cells;
mod page;

use testkit::profile::Profile;
use testkit::services::{SERVICES, Service};

use cells::{DOES_NOT_ELECT, Row, row};

/// How many rows are run side by side: most of the time is waiting for leases.
const SIDE_BY_SIDE: usize = 5;

fn rows(services: &'static [Service]) -> Vec<Row> {
    let mut rows = Vec::new();
    for some in services.chunks(SIDE_BY_SIDE) {
        let row = |service: &Service| row(service.profile, service.is_cluster);
        let running: Vec<_> = some.iter().map(|service| std::thread::spawn(move || row(service))).collect();
        rows.extend(running.into_iter().map(|thread| thread.join().expect("a row is a row, whatever it shows")));
    }
    rows
}

/// On the server of this run everything works.
#[test]
fn this_server_does_everything() {
    let row = row(Profile::NONE, false);
    println!("{}", row.audit);
    let missing: Vec<_> = row.cells.iter().filter_map(|(column, why)| Some((column, why.as_ref()?))).collect();
    assert!(missing.is_empty(), "{missing:?}");
    page::note_server(&row);
}

/// What services refuse costs what the page says, and `baton audit` says why.
#[test]
fn services_are_as_the_page_says() {
    let rows = rows(SERVICES);
    for row in &rows {
        for (column, why) in &row.cells {
            println!("{}: {column}: {}", row.name, why.as_deref().unwrap_or("yes"));
            // What an app is told is found before, by who asks the audit. Nothing else may be wrong.
            let told = why.as_deref().filter(|why| *why != DOES_NOT_ELECT);
            let told = told.map(|why| why.strip_prefix("the store refuses: ").unwrap_or(why));
            let said = told.is_none_or(|told| row.audit.contains(told.split(':').next().unwrap_or(told)));
            assert!(said, "{}: {column}: the audit does not say {told:?}: {}", row.name, row.audit);
        }
        println!("{}", row.audit);
    }
    page::hold(&rows);
}
