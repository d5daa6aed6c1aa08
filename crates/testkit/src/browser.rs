//! A real browser without a window, controlled over the DevTools protocol through a pair of pipes: no port is open, and no
//! other page can reach it.

use std::{
    fs::{File, OpenOptions},
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::Command,
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    time::{Duration, Instant},
};

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use serde_json::{Value, json};

use crate::{
    Error, Result, binaries,
    process::{Program, Running, describe},
};

/// What to print when a test is skipped because there is no browser.
pub const SKIP_MESSAGE: &str = "SKIPPED: no chromium in PATH (Debian package: chromium)";

/// Returns the layout problems of a report page: elements outside the window or a drawing, and overlapping text.
pub const LAYOUT_PROBLEMS_SCRIPT: &str = r##"(() => {
  const bad = [];
  const box = (element) => element.getBoundingClientRect();
  const seen = (element) => box(element).width > 0 && box(element).height > 0;
  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) bad.push(`the page is ${root.scrollWidth} wide in a window of ${root.clientWidth}`);
  for (const svg of document.querySelectorAll("figure svg:not(.swatch)")) {
    if (!seen(svg)) continue;
    const outer = box(svg), texts = [...svg.querySelectorAll("text")].filter(seen);
    texts.forEach((a, n) => {
      const one = box(a);
      if (one.left < outer.left - 1 || one.right > outer.right + 1 || one.bottom > outer.bottom + 1) bad.push(`${a.textContent} leaves the drawing`);
      texts.slice(n + 1).forEach((b) => {
        const two = box(b);
        if (one.left < two.right - 1 && two.left < one.right - 1 && one.top < two.bottom - 2 && two.top < one.bottom - 2)
          bad.push(`${svg.getAttribute("aria-label")}: ${a.textContent} over ${b.textContent}`);
      });
    });
  }
  return bad;
})()"##;

const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);

/// A browser with one page; killed when dropped.
#[derive(Debug)]
pub struct Browser {
    running: Running,
    to: File,
    messages: Receiver<Value>,
    session: Option<String>,
    last: u64,
    console_messages: Vec<String>,
    requests: Vec<String>,
    loaded: bool,
    _folder: tempfile::TempDir,
}

impl Browser {
    /// Whether a browser is in `PATH`.
    pub fn is_installed() -> bool {
        program().is_some()
    }

    /// Starts it with an empty page, and without names and network.
    ///
    /// # Errors
    /// [`Error::Missing`] with [`SKIP_MESSAGE`]; [`Error::Ended`] with its output; [`Error::Late`].
    pub fn start() -> Result<Self> {
        let chromium = program().ok_or_else(|| Error::Missing(SKIP_MESSAGE.to_owned()))?;
        let folder = tempfile::tempdir().map_err(Error::file(&std::env::temp_dir()))?;
        let (to, from) = (folder.path().join("to"), folder.path().join("from"));
        make_pipes(&[&to, &from])?;
        // The browser reads commands from descriptor 3 and writes answers to 4.
        let mut arguments: Vec<String> =
            ["-c", r#"exec "$0" "$@" 3<"$TO_BROWSER" 4>"$FROM_BROWSER""#]
                .map(str::to_owned)
                .into();
        arguments.push(chromium.to_string_lossy().into_owned());
        arguments.extend(FLAGS.iter().map(|flag| (*flag).to_owned()));
        arguments.push(format!(
            "--user-data-dir={}",
            folder.path().join("profile").display()
        ));
        let variable =
            |name: &str, path: &Path| (name.to_owned(), Some(path.to_string_lossy().into_owned()));
        let environment = vec![variable("TO_BROWSER", &to), variable("FROM_BROWSER", &from)];
        let output = folder.path().join("browser.out");
        let running = Running::start(&Program {
            path: "/bin/sh".into(),
            arguments,
            environment,
            output,
        })?;
        let (sender, messages) = channel();
        std::thread::spawn(move || read(&from, &sender));
        // Opened for reading and writing, because otherwise the open would wait for the other side.
        let to = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&to)
            .map_err(Error::file(&to))?;
        let mut browser = Self {
            running,
            to,
            messages,
            session: None,
            last: 0,
            console_messages: Vec::new(),
            requests: Vec::new(),
            loaded: false,
            _folder: folder,
        };
        browser.attach()?;
        Ok(browser)
    }

    fn attach(&mut self) -> Result<()> {
        let target = self.call("Target.createTarget", &json!({ "url": "about:blank" }))?;
        let attached = self.call(
            "Target.attachToTarget",
            &json!({ "targetId": target["targetId"], "flatten": true }),
        )?;
        self.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            self.call(&format!("{domain}.enable"), &json!({}))?;
        }
        Ok(())
    }

    /// Opens a file and waits until the page has loaded.
    ///
    /// # Errors
    /// [`Error::Late`]; otherwise as [`Browser::call`].
    pub fn open(&mut self, file: &Path) -> Result<()> {
        let file = file.canonicalize().map_err(Error::file(file))?;
        self.loaded = false;
        self.call(
            "Page.navigate",
            &json!({ "url": format!("file://{}", file.display()) }),
        )?;
        let started_at = Instant::now();
        while !self.loaded {
            let message = self.next("the page loads", started_at)?;
            self.note(&message);
        }
        Ok(())
    }

    /// The value of an expression in the page; waits for a promise.
    ///
    /// # Errors
    /// [`Error::Malformed`] with the exception; otherwise as [`Browser::call`].
    pub fn evaluate(&mut self, expression: &str) -> Result<Value> {
        let parameters =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let mut answer = self.call("Runtime.evaluate", &parameters)?;
        match answer.get("exceptionDetails") {
            Some(exception) => Err(Error::malformed("an exception", &exception.to_string())),
            None => Ok(answer["result"]["value"].take()),
        }
    }

    /// Sets the size of the window, and whether the system prefers dark colours.
    ///
    /// # Errors
    /// As [`Browser::call`].
    pub fn window(&mut self, width: u32, height: u32, dark: bool) -> Result<()> {
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", &size)?;
        let scheme = json!([{ "name": "prefers-color-scheme", "value": if dark { "dark" } else { "light" } }]);
        self.call("Emulation.setEmulatedMedia", &json!({ "features": scheme }))?;
        Ok(())
    }

    /// Sets whether pages may run scripts, from the next [`Browser::open`] on.
    ///
    /// # Errors
    /// As [`Browser::call`].
    pub fn scripts(&mut self, on: bool) -> Result<()> {
        self.call(
            "Emulation.setScriptExecutionDisabled",
            &json!({ "value": !on }),
        )
        .map(drop)
    }

    /// Writes a PNG of the window, or of the whole page.
    ///
    /// # Errors
    /// As [`Browser::call`]; [`Error::File`].
    pub fn screenshot(&mut self, path: &Path, whole: bool) -> Result<()> {
        let answer = self.call(
            "Page.captureScreenshot",
            &json!({ "format": "png", "captureBeyondViewport": whole }),
        )?;
        save(path, &answer)
    }

    /// Prints the page to a PDF file.
    ///
    /// # Errors
    /// As [`Browser::call`]; [`Error::File`].
    pub fn print(&mut self, path: &Path) -> Result<()> {
        let a4 = json!({ "paperWidth": 8.27, "paperHeight": 11.69, "preferCSSPageSize": true, "printBackground": false });
        let answer = self.call("Page.printToPDF", &a4)?;
        save(path, &answer)
    }

    /// Moves the mouse, with the left button pressed or not.
    ///
    /// # Errors
    /// As [`Browser::call`].
    pub fn mouse_move(&mut self, x: f64, y: f64, is_pressed: bool) -> Result<()> {
        self.mouse("mouseMoved", (x, y), is_pressed)
    }

    /// Presses the left button at `from`, moves to `to` in steps, and releases it.
    ///
    /// # Errors
    /// As [`Browser::call`].
    pub fn drag(&mut self, from: (f64, f64), to: (f64, f64)) -> Result<()> {
        self.mouse("mouseMoved", from, false)?;
        self.mouse("mousePressed", from, true)?;
        for step in 1..=8 {
            let share = f64::from(step) / 8.0;
            self.mouse(
                "mouseMoved",
                (
                    from.0 + (to.0 - from.0) * share,
                    from.1 + (to.1 - from.1) * share,
                ),
                true,
            )?;
        }
        self.mouse("mouseReleased", to, true)
    }

    /// Presses and releases the left button.
    ///
    /// # Errors
    /// As [`Browser::call`].
    pub fn click(&mut self, x: f64, y: f64) -> Result<()> {
        self.mouse("mousePressed", (x, y), true)?;
        self.mouse("mouseReleased", (x, y), true)
    }

    fn mouse(&mut self, kind: &str, (x, y): (f64, f64), is_pressed: bool) -> Result<()> {
        let button = if kind == "mouseMoved" && !is_pressed {
            "none"
        } else {
            "left"
        };
        let event = json!({
            "type": kind, "x": x, "y": y, "button": button, "buttons": u8::from(is_pressed), "clickCount": 1,
        });
        self.call("Input.dispatchMouseEvent", &event).map(drop)
    }

    /// Presses a key by its name in the DOM: `Tab`, `ArrowLeft`, `+`.
    ///
    /// # Errors
    /// As [`Browser::call`].
    pub fn key(&mut self, key: &str) -> Result<()> {
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            "Escape" => 27,
            " " => 32,
            "ArrowLeft" => 37,
            "ArrowRight" => 39,
            _ => 0,
        };
        let text = if key.chars().count() == 1 { key } else { "" };
        for kind in ["keyDown", "keyUp"] {
            let mut event = json!({ "type": kind, "key": key, "windowsVirtualKeyCode": code });
            if kind == "keyDown" && !text.is_empty() {
                event["text"] = json!(text);
            }
            self.call("Input.dispatchKeyEvent", &event)?;
        }
        Ok(())
    }

    /// Messages of the console since the start, including uncaught exceptions and refusals by the page's policy.
    pub fn console_messages(&self) -> &[String] {
        &self.console_messages
    }

    /// All requested addresses since the start, including the page.
    pub fn requests(&self) -> &[String] {
        &self.requests
    }

    /// Sends a command of the protocol and returns its result.
    ///
    /// # Errors
    /// [`Error::Rpc`] if the browser refuses; [`Error::Ended`] if it has ended; [`Error::Missing`] if it only closed its
    /// pipe; [`Error::Late`].
    pub fn call(&mut self, method: &str, parameters: &Value) -> Result<Value> {
        self.last += 1;
        let id = self.last;
        let mut command = json!({ "id": id, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            command["sessionId"] = json!(session);
        }
        self.running.check()?;
        let mut bytes = command.to_string().into_bytes();
        bytes.push(0);
        self.to
            .write_all(&bytes)
            .map_err(Error::file(Path::new("the pipe to the browser")))?;
        let started_at = Instant::now();
        loop {
            let mut message = self.next(method, started_at)?;
            if message["id"] != json!(id) {
                self.note(&message);
            } else if let Some(error) = message.get("error") {
                return Err(Error::Rpc {
                    method: method.to_owned(),
                    message: error.to_string(),
                });
            } else {
                return Ok(message["result"].take());
            }
        }
    }

    fn next(&mut self, what: &str, started_at: Instant) -> Result<Value> {
        let left = COMMAND_TIMEOUT.saturating_sub(started_at.elapsed());
        match self.messages.recv_timeout(left) {
            Ok(message) => Ok(message),
            Err(RecvTimeoutError::Disconnected) => {
                self.running.check()?;
                Err(Error::Missing("the browser has closed its pipe".to_owned()))
            }
            Err(RecvTimeoutError::Timeout) => Err(Error::Late {
                what: format!("the browser: {what}"),
                deadline: COMMAND_TIMEOUT,
                last_seen: self.console_messages.last().cloned().unwrap_or_default(),
            }),
        }
    }

    fn note(&mut self, message: &Value) {
        let parameters = &message["params"];
        match message["method"].as_str() {
            Some("Page.loadEventFired") => self.loaded = true,
            Some("Runtime.consoleAPICalled") => {
                self.console_messages.push(parameters["args"].to_string())
            }
            Some("Runtime.exceptionThrown") => self
                .console_messages
                .push(parameters["exceptionDetails"].to_string()),
            Some("Log.entryAdded") => self
                .console_messages
                .push(parameters["entry"]["text"].to_string()),
            Some("Network.requestWillBeSent") => {
                self.requests.push(
                    parameters["request"]["url"]
                        .as_str()
                        .unwrap_or_default()
                        .to_owned(),
                );
            }
            _ => {}
        }
    }
}

const FLAGS: &[&str] = &[
    "--headless",
    "--remote-debugging-pipe",
    // As root in a container, the sandbox cannot be set up. The pages are our own.
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-extensions",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--disable-dev-shm-usage",
];

fn program() -> Option<PathBuf> {
    ["chromium", "chromium-browser", "google-chrome"]
        .into_iter()
        .find_map(binaries::in_search_path)
}

fn make_pipes(paths: &[&Path]) -> Result<()> {
    let ended = Command::new("mkfifo").args(paths).status();
    let status = ended.map_err(|source| Error::Start {
        program: "mkfifo".into(),
        source,
    })?;
    if status.success() {
        return Ok(());
    }
    Err(Error::Ended {
        program: "mkfifo".to_owned(),
        status: describe(status),
        tail: String::new(),
    })
}

/// Sends messages, which end with a zero byte, until the browser ends or the receiver is dropped.
fn read(path: &Path, to: &Sender<Value>) {
    let Ok(file) = File::open(path) else { return };
    let mut reader = BufReader::new(file);
    loop {
        let mut bytes = Vec::new();
        match reader.read_until(0, &mut bytes) {
            Ok(1..) => {}
            _ => return,
        }
        if bytes.last() == Some(&0) {
            bytes.pop();
        }
        if let Ok(message) = serde_json::from_slice(&bytes)
            && to.send(message).is_err()
        {
            return;
        }
    }
}

fn save(path: &Path, answer: &Value) -> Result<()> {
    let text = answer["data"].as_str().unwrap_or_default();
    let bytes = BASE64
        .decode(text)
        .map_err(|_| Error::malformed("not base64", text))?;
    std::fs::write(path, bytes).map_err(Error::file(path))
}
