//! A browser, as WebDriver (W3C) speaks to it: Debian's Chromium behind its chromedriver, with a profile of its own
//! that goes away. As much of the protocol as these tests need.

use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::ports::free_port;
use testkit::sidecars::http::Connection;
use testkit::wait::{until, until_some};

/// Keys, as WebDriver numbers them.
pub const TAB: &str = "\u{e004}";
pub const ENTER: &str = "\u{e007}";
pub const ESCAPE: &str = "\u{e00c}";
pub const SPACE: &str = " ";

/// See the module. It ends, with all its processes, when dropped.
pub struct Browser {
    driver: Child,
    address: SocketAddr,
    session: String,
    _profile: TempDir,
}

impl Browser {
    /// Starts one.
    ///
    /// # Panics
    /// When there is none: `.ci/deps chromedriver` installs it.
    pub fn open() -> Self {
        let profile = TempDir::new().expect("a temporary directory");
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let mut command = Command::new("chromedriver");
        command.arg(format!("--port={}", address.port())).stdin(Stdio::null()).stdout(Stdio::null());
        // A group of their own, so that nothing is left of the browser whatever becomes of its driver.
        let driver = command.stderr(Stdio::null()).process_group(0).spawn();
        let driver = driver.unwrap_or_else(|error| panic!("chromedriver: {error}; .ci/deps chromedriver installs it"));
        let mut browser = Self { driver, address, session: String::new(), _profile: profile };
        until("chromedriver listens", || std::net::TcpStream::connect(address).is_ok());
        let data = browser._profile.path().to_string_lossy().into_owned();
        let flags = ["headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-sync"];
        let more = ["disable-background-networking", "disable-component-update", "disable-dev-shm-usage"];
        let mut arguments: Vec<String> = flags.iter().chain(&more).map(|flag| format!("--{flag}")).collect();
        arguments.push(format!("--user-data-dir={data}"));
        let options = json!({ "args": arguments });
        let wanted = json!({ "goog:chromeOptions": options, "goog:loggingPrefs": { "browser": "ALL" } });
        let begun = browser.ask("POST /session", &json!({ "capabilities": { "alwaysMatch": wanted } }));
        browser.session = begun["sessionId"].as_str().expect("a session").to_owned();
        browser.size(1_280, 900);
        browser
    }

    fn try_ask(&self, line: &str, body: &Value) -> std::io::Result<Value> {
        let body = if line.starts_with("POST") { body.to_string() } else { String::new() };
        let answer = Connection::open(self.address)?.ask(line, &body)?;
        let mut answer: Value = serde_json::from_str(&answer.body)?;
        Ok(answer["value"].take())
    }

    fn ask(&self, line: &str, body: &Value) -> Value {
        let value = self.try_ask(line, body).unwrap_or_else(|error| panic!("{line}: {error}"));
        assert!(value.get("error").is_none(), "{line} {body}: {value}");
        value
    }

    fn tell(&self, call: &str, body: &Value) -> Value {
        self.ask(&format!("POST /session/{}/{call}", self.session), body)
    }

    /// Opens an address.
    pub fn go(&self, url: &str) {
        self.tell("url", &json!({ "url": url }));
    }

    /// The value of a script's body. What it returns may be a promise.
    pub fn run(&self, script: &str) -> Value {
        self.tell("execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// The value of an expression.
    pub fn look(&self, expression: &str) -> Value {
        self.run(&format!("return {expression};"))
    }

    /// An expression's text.
    pub fn text(&self, expression: &str) -> String {
        self.look(expression).as_str().unwrap_or_else(|| panic!("{expression} is no text")).to_owned()
    }

    /// Waits until an expression is true, and shows the page's text when it does not become so. It may throw until
    /// then: what it looks at need not be on the page yet.
    pub fn until(&self, expression: &str) {
        let script = format!("try {{ return {expression}; }} catch (error) {{ return String(error); }}");
        let (mut value, mut text) = (Value::Null, String::new());
        let waiting = std::panic::AssertUnwindSafe(|| {
            until(expression, || {
                text = self.text("document.body.innerText");
                value = self.run(&script);
                value == true
            });
        });
        if std::panic::catch_unwind(waiting).is_err() {
            panic!("the page never came to {expression}, but to {value}; it says:\n{text}");
        }
    }

    /// Presses and releases keys, one after the other.
    pub fn press(&self, keys: &[&str]) {
        let actions: Vec<Value> = keys
            .iter()
            .flat_map(|key| ["keyDown", "keyUp"].map(|kind| json!({ "type": kind, "value": key })))
            .collect();
        self.tell("actions", &json!({ "actions": [{ "type": "key", "id": "keyboard", "actions": actions }] }));
    }

    /// Presses the tabulator until an expression about `at`, the element that has the focus, is true.
    pub fn tab_to(&self, expression: &str) {
        let script = format!("const at = document.activeElement; return {expression};");
        until_some(&format!("the tabulator comes to {expression}"), || {
            self.press(&[TAB]);
            (self.run(&script) == true).then_some(())
        });
    }

    /// A command of Chromium's own (DevTools protocol).
    pub fn devtools(&self, command: &str, parameters: &Value) -> Value {
        self.tell("goog/cdp/execute", &json!({ "cmd": command, "params": parameters }))
    }

    /// The window's inner size, in CSS pixels.
    pub fn size(&self, width: u32, height: u32) {
        let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500 });
        self.devtools("Emulation.setDeviceMetricsOverride", &metrics);
    }

    /// What the reader prefers, such as `("prefers-color-scheme", "dark")`.
    pub fn prefer(&self, features: &[(&str, &str)]) {
        let features: Vec<Value> =
            features.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect();
        self.devtools("Emulation.setEmulatedMedia", &json!({ "media": "", "features": features }));
    }

    /// What is seen, as a PNG.
    pub fn picture(&self) -> Vec<u8> {
        let shot = self.ask(&format!("GET /session/{}/screenshot", self.session), &Value::Null);
        from_base64(shot.as_str().expect("base64"))
    }

    /// What the console was told since it was last asked, warnings and errors only: policies that were violated and
    /// requests that failed among them.
    pub fn complaints(&self) -> Vec<String> {
        let entries = self.tell("se/log", &json!({ "type": "browser" }));
        let entries = entries.as_array().expect("entries").iter();
        let bad = entries.filter(|entry| ["SEVERE", "WARNING"].iter().any(|level| entry["level"] == *level));
        bad.map(|entry| entry["message"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            // It may be gone already; the signal below is for what is not.
            let _ = self.try_ask(&format!("DELETE /session/{}", self.session), &Value::Null);
        }
        if let Some(group) = i32::try_from(self.driver.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.driver.wait();
    }
}

fn from_base64(text: &str) -> Vec<u8> {
    let value = |letter: u8| match letter {
        b'A'..=b'Z' => u32::from(letter - b'A'),
        b'a'..=b'z' => u32::from(letter - b'a') + 26,
        b'0'..=b'9' => u32::from(letter - b'0') + 52,
        b'+' => 62,
        b'/' => 63,
        other => panic!("{other} in base64"),
    };
    let letters: Vec<u32> = text.bytes().filter(|letter| *letter != b'=').map(value).collect();
    let mut bytes = Vec::with_capacity(letters.len() * 3 / 4);
    for group in letters.chunks(4) {
        let bits = group.iter().fold(0, |bits, letter| bits << 6 | letter) << (6 * (4 - group.len()));
        bytes.extend_from_slice(&bits.to_be_bytes()[1..group.len()]);
    }
    bytes
}
