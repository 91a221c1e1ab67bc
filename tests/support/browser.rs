use std::fs::File;
use std::process::{Command, Stdio};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use outboxd::internals::throwaway::unused_port;
use serde_json::{Value, json};

use super::http::{send, try_get};
use super::programs::spawn;
use super::wait::{DEADLINE, eventually};
use super::watcher::Watcher;

/// Window and color scheme with which a page is viewed. No script of a page is run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look {
    pub(crate) width: u32,
    pub(crate) height: u32,
    /// A telephone: a page that does not fit is not made narrower.
    pub(crate) phone: bool,
    pub(crate) dark: bool,
}

/// Chromium without a window, driven by Debian's chromedriver. Gone when this value is dropped.
#[derive(Debug)]
pub(crate) struct Browser {
    _watcher: Watcher,
    port: u16,
    session: String,
}

impl Browser {
    pub(crate) fn open(look: Look) -> Self {
        let mut watcher = Watcher::new("outboxd-browser-");
        let port = unused_port().unwrap();
        let log = File::create(watcher.folder().join("log")).unwrap();
        let mut command = Command::new("chromedriver");
        command.arg(format!("--port={port}")).stdin(Stdio::null()).stderr(Stdio::null()).stdout(log);
        watcher.watch(&spawn(&mut command));
        eventually(DEADLINE.saturating_add(Duration::from_secs(30)), "chromedriver answers", || {
            try_get(port, "/status").is_some_and(|page| page.code == 200)
        });
        let data = format!("--user-data-dir={}", watcher.folder().join("data").display());
        // The tests may run as root, and in a container without much shared memory.
        let arguments = ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", &data];
        let options = json!({ "args": arguments });
        let wanted = json!({ "browserName": "chrome", "goog:chromeOptions": options });
        let opened = post(port, "/session", &json!({ "capabilities": { "alwaysMatch": wanted } }));
        let session = opened["sessionId"].as_str().unwrap_or_else(|| panic!("{opened}")).to_owned();
        let browser = Self { _watcher: watcher, port, session };
        browser.look(look);
        browser
    }

    /// Loads a page.
    pub(crate) fn visit(&self, url: &str) {
        self.command("/url", &json!({ "url": url }));
    }

    /// Returns the visible text of the page.
    pub(crate) fn text(&self) -> String {
        self.evaluate("document.body.innerText").as_str().unwrap().to_owned()
    }

    /// Evaluates an expression in the page and returns its value.
    pub(crate) fn evaluate(&self, expression: &str) -> Value {
        self.command("/execute/sync", &json!({ "script": format!("return {expression}"), "args": [] }))
    }

    /// Returns the visible page as PNG.
    pub(crate) fn screenshot(&self) -> Vec<u8> {
        let page = try_get(self.port, &format!("/session/{}/screenshot", self.session)).unwrap();
        BASE64_STANDARD.decode(page.json()["value"].as_str().unwrap()).unwrap()
    }

    fn look(&self, look: Look) {
        let Look { width, height, phone, dark } = look;
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": phone });
        self.develop("Emulation.setDeviceMetricsOverride", &size);
        let scheme = json!({ "name": "prefers-color-scheme", "value": if dark { "dark" } else { "light" } });
        self.develop("Emulation.setEmulatedMedia", &json!({ "features": [scheme] }));
        self.develop("Emulation.setScriptExecutionDisabled", &json!({ "value": true }));
    }

    fn develop(&self, command: &str, parameters: &Value) {
        self.command("/goog/cdp/execute", &json!({ "cmd": command, "params": parameters }));
    }

    fn command(&self, path: &str, body: &Value) -> Value {
        post(self.port, &format!("/session/{}{path}", self.session), body)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It ends Chromium; the driver itself is killed.
        drop(send(self.port, "DELETE", &format!("/session/{}", self.session), ""));
    }
}

#[track_caller]
fn post(port: u16, path: &str, body: &Value) -> Value {
    let page = send(port, "POST", path, &body.to_string());
    assert_eq!(page.code, 200, "{path}: {}", page.body);
    page.json()["value"].clone()
}
