//! How the program is linked: smaller, and nothing else. With `BATON_PLAIN_LINK` set, or a linker of one's own, it is
//! linked as cargo does by itself; everything works the same.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

/// What is left out of an optimised build. Unwinding needs these tables, and this program aborts on a panic: its hook
/// writes the message and ends the process before (src/process.rs). They are a tenth of the file.
///
/// The first and the last entry stay, which a static program registers when it starts.
///
/// Without them a debugger or a profiler shows no callers; so a build with debug information keeps them. The unwinder
/// of the C library finds no table and stops, so RUST_BACKTRACE shows nothing, and breaks nothing.
const NO_UNWIND_TABLES: &str = "\
SECTIONS { /DISCARD/ : { *(EXCLUDE_FILE(*crtbegin*.o *crtend*.o) .eh_frame .gcc_except_table .gcc_except_table.*) } }
INSERT AFTER .text;
";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=BATON_PLAIN_LINK");
    println!("cargo::rerun-if-env-changed=CARGO_PROFILE_RELEASE_PANIC");
    if var("BATON_PLAIN_LINK").is_empty() && is_usual_linker() {
        if var("PROFILE") == "release" && var("DEBUG") == "false" && var("CARGO_PROFILE_RELEASE_PANIC").is_empty() {
            discard_unwind_tables();
        }
        if can_relocate_in_packs() {
            println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
        }
    }
}

fn var(name: &str) -> String {
    env::var(name).unwrap_or_default()
}

/// GNU ld and LLVM's lld, which these platforms have unless somebody says otherwise, do all that follows. Others need
/// not: mold, for one, reads no such scripts.
fn is_usual_linker() -> bool {
    let platforms = ["x86_64-unknown-linux-gnu", "x86_64-unknown-linux-musl", "aarch64-unknown-linux-gnu"];
    let known = platforms.contains(&var("TARGET").as_str()) || var("TARGET") == "aarch64-unknown-linux-musl";
    let flags = var("CARGO_ENCODED_RUSTFLAGS");
    let chosen = !var("RUSTC_LINKER").is_empty() || ["linker", "link-arg"].iter().any(|word| flags.contains(word));
    known && !chosen
}

fn discard_unwind_tables() {
    let script = Path::new(&var("OUT_DIR")).join("no-unwind-tables.ld");
    // Without it the program is larger, and the same.
    if fs::write(&script, NO_UNWIND_TABLES).is_ok() {
        println!("cargo::rustc-link-arg-bins=-Wl,--no-eh-frame-hdr");
        println!("cargo::rustc-link-arg-bins=-T");
        println!("cargo::rustc-link-arg-bins={}", script.display());
    }
}

/// Whether what starts the program knows relative relocations in packs (DT_RELR), which are a hundredth of the usual
/// size: glibc does since 2.36, and the musl that comes with Rust since 1.93 (musl 1.2.4).
fn can_relocate_in_packs() -> bool {
    let version = |program: &str, argument: &str| {
        let output = Command::new(program).arg(argument).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        let mut numbers = text.split_whitespace().nth(1)?.split('.').map_while(|part| part.parse::<u32>().ok());
        Some((numbers.next()?, numbers.next()?))
    };
    match var("CARGO_CFG_TARGET_ENV").as_str() {
        // That of this machine: one that is older there is refused by its loader, in words.
        "gnu" => var("HOST") == var("TARGET") && version("getconf", "GNU_LIBC_VERSION") >= Some((2, 36)),
        "musl" => version(&var("RUSTC"), "--version") >= Some((1, 93)),
        _ => false,
    }
}
