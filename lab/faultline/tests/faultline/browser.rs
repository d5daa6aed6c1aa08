//! The page in a real browser: what it asks for, how it looks, what its controls do. Pictures are kept in
//! `target/report-screenshots/`.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test says so by failing"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "a test starts the program that it tests"
)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use crate::support::sample;
use faultline_pages::{
    model::{Block, Report},
    render,
};
use faultline_testkit::{
    browser::{Browser, SKIP_MESSAGE},
    eventually::eventually_ok,
};
use serde_json::{Value, json};

/// Of a page 900 px high.
const MAX_FOLDED_SCREENS: f64 = 12.0;

struct Page {
    browser: Browser,
    file: PathBuf,
    _folder: tempfile::TempDir,
}

/// The report in a window of that size; `None`, having said so, where there is no browser.
fn page(report: &Report, width: u32, height: u32, dark: bool) -> Option<Page> {
    if !Browser::is_installed() {
        println!("{SKIP_MESSAGE}");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = render::write(report, folder.path(), true).unwrap().page;
    Some(shown(folder, file, (width, height, dark)))
}

fn shown(
    folder: tempfile::TempDir,
    file: PathBuf,
    (width, height, dark): (u32, u32, bool),
) -> Page {
    let mut browser = Browser::start().unwrap();
    browser.window(width, height, dark).unwrap();
    browser.open(&file).unwrap();
    let unfold =
        "document.querySelectorAll('details.fold').forEach((fold) => { fold.open = true; })";
    browser.evaluate(unfold).unwrap();
    browser.evaluate("faultline.drawAll()").unwrap();
    Page {
        browser,
        file,
        _folder: folder,
    }
}

impl Page {
    fn ask(&mut self, expression: &str) -> Value {
        self.browser.evaluate(expression).unwrap()
    }

    /// Waits until the expression is true.
    fn wait(&mut self, expression: &str) {
        eventually_ok(Duration::from_secs(30), expression, || {
            let seen = self.browser.evaluate(expression).unwrap();
            if seen == json!(true) {
                Ok(())
            } else {
                Err(seen.to_string())
            }
        });
    }

    /// Scrolls a timeline into view; the places of its box in the window: left, top, width, height.
    fn timeline(&mut self, id: &str) -> [f64; 4] {
        let place = self.ask(&format!(
            "(async () => {{ const over = faultline.charts.get('{id}').u.over;
               document.documentElement.style.scrollBehavior = 'auto';
               over.scrollIntoView({{ block: 'center' }});
               await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
               faultline.charts.forEach((one) => one.u.syncRect(true));
               const box = over.getBoundingClientRect();
               return [box.left, box.top, box.width, box.height]; }})()"
        ));
        serde_json::from_value(place).unwrap()
    }
}

fn pictures() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/report-screenshots");
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Complains of text boxes of one drawing that overlap or leave it, of cards and controls that overlap, and of what is
/// wider than the window.
const LAYOUT_PROBLEMS_SCRIPT: &str = r##"(() => {
  const bad = [];
  const box = (element) => element.getBoundingClientRect();
  const say = (element) => `${element.tagName} "${element.textContent.trim().slice(0, 40)}"`;
  const seen = (element) => box(element).width > 0 && box(element).height > 0;
  const cross = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 2 && b.top < a.bottom - 2;
  const apart = (elements, where) => {
    elements = [...elements].filter(seen);
    elements.forEach((a, n) => elements.slice(n + 1).forEach((b) => {
      if (!a.contains(b) && !b.contains(a) && cross(box(a), box(b))) bad.push(`${where}: ${say(a)} over ${say(b)}`);
    }));
  };
  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) bad.push(`the page is ${root.scrollWidth} wide in a window of ${root.clientWidth}`);
  for (const svg of document.querySelectorAll("figure svg:not(.swatch)")) {
    if (!seen(svg)) continue;
    const name = svg.getAttribute("aria-label");
    apart(svg.querySelectorAll("text"), name);
    const outer = box(svg);
    for (const text of svg.querySelectorAll("text")) {
      const inner = box(text);
      if (inner.left < outer.left - 1 || inner.right > outer.right + 1 || inner.bottom > outer.bottom + 1) bad.push(`${name}: ${say(text)} leaves the drawing`);
    }
  }
  apart(document.querySelectorAll(".card, .caveats li, .verdict, .table, figure, .prose, .choice, .masthead, footer"), "page");
  apart(document.querySelectorAll(".arms label, .choice summary, .choice input"), "runs shown");
  for (const list of document.querySelectorAll(".legend")) apart(list.querySelectorAll("li"), "legend");
  for (const head of document.querySelectorAll(".head")) apart(head.querySelectorAll("h3, button"), "head");
  for (const element of document.querySelectorAll("main *")) {
    if (!element.closest(".scroll, .still, .u-wrap, .said") && seen(element) && box(element).right > innerWidth + 1) bad.push(`${say(element)} leaves the window`);
  }
  return bad;
})()"##;

/// Whether every timeline has the width of its box.
const DRAWN: &str = "[...faultline.charts.values()].every((one) => Math.abs(one.u.width - one.box.clientWidth) <= 1)";

#[test]
fn page_elements_never_overlap_or_overflow_in_light_or_dark() {
    let Some(mut page) = page(&sample::rich(), 1280, 900, false) else {
        return;
    };
    for (width, height) in [
        (400, 800),
        (620, 900),
        (800, 900),
        (1280, 900),
        (2000, 1200),
    ] {
        for (dark, name) in [(false, "light"), (true, "dark")] {
            page.browser.window(width, height, dark).unwrap();
            page.ask("scrollTo(0, 0)");
            page.wait(DRAWN);
            let first = pictures().join(format!("{width}-{name}-first.png"));
            page.browser.screenshot(&first, false).unwrap();
            let crowded = page.ask(LAYOUT_PROBLEMS_SCRIPT);
            let whole = pictures().join(format!("{width}-{name}.png"));
            page.browser.screenshot(&whole, true).unwrap();
            assert_eq!(crowded, json!([]), "{width} {name}");
        }
    }
}

#[test]
fn nearly_empty_figures_and_long_tables_fit_the_page() {
    let Some(mut page) = page(&sample::degenerate(), 1280, 900, false) else {
        return;
    };
    for width in [400, 1280] {
        page.browser.window(width, 900, false).unwrap();
        page.wait(DRAWN);
        page.browser
            .screenshot(&pictures().join(format!("degenerate-{width}.png")), true)
            .unwrap();
        assert_eq!(page.ask(LAYOUT_PROBLEMS_SCRIPT), json!([]));
    }
    assert_eq!(page.ask("faultline.charts.size"), json!(6));
    let axis = page.ask(
        "(({ min, max }) => [min < -5e10, max === 0])(faultline.charts.get('negative').u.scales.y)",
    );
    assert_eq!(axis, json!([true, true]));
    let drawn = page.ask(
        r#"(() => {
          const { u } = faultline.charts.get('one-point');
          const { left, top, width, height } = u.bbox;
          const blue = getComputedStyle(document.documentElement).getPropertyValue('--k0').trim();
          const pixels = u.ctx.getImageData(left - 6, top - 6, width + 12, height + 12).data;
          let found = 0;
          for (let n = 0; n < pixels.length; n += 4) {
            const hex = '#' + [...pixels.slice(n, n + 3)].map((byte) => byte.toString(16).padStart(2, '0')).join('');
            if (hex === blue) found += 1;
          }
          return found;
        })()"#,
    );
    assert!(
        drawn.as_u64().unwrap() >= 4,
        "a lone point is drawn: {drawn} pixels"
    );
    assert_eq!(
        page.ask("document.querySelector('#Table-long .scroll').clientHeight < 700"),
        json!(true)
    );
    assert_eq!(
        page.ask("document.getElementById('Shown')"),
        Value::Null,
        "nothing to choose among one run"
    );
}

#[test]
fn only_an_overflowing_table_scrolls_and_takes_keyboard_focus() {
    let Some(mut page) = page(&sample::rich(), 400, 800, false) else {
        return;
    };
    let box_of = "document.querySelector('#Table-tps .scroll')";
    assert_eq!(
        page.ask(&format!(
            "{box_of}.scrollWidth > {box_of}.clientWidth && {box_of}.tabIndex === 0"
        )),
        json!(true)
    );
    page.browser.window(2000, 1200, false).unwrap();
    page.wait(&format!(
        "{box_of}.scrollWidth <= {box_of}.clientWidth && !{box_of}.hasAttribute('tabindex')"
    ));
}

#[test]
fn the_report_page_makes_no_requests_or_console_messages() {
    for report in [sample::rich(), sample::smallest(), sample::degenerate()] {
        let Some(mut page) = page(&report, 1280, 900, false) else {
            return;
        };
        page.ask("document.querySelectorAll('button').forEach((button) => button.click())");
        page.ask("document.querySelectorAll('input').forEach((input) => input.click())");
        page.ask("document.querySelectorAll('details').forEach((details) => { details.open = !details.open; })");
        if page.ask("faultline.charts.has('memory')") == json!(true) {
            let [left, top, width, height] = page.timeline("memory");
            page.browser
                .drag(
                    (left + width * 0.3, top + height / 2.0),
                    (left + width * 0.6, top + height / 2.0),
                )
                .unwrap();
        }
        for width in [500, 1500] {
            page.browser.window(width, 900, width == 500).unwrap();
            page.ask("new Promise((done) => requestAnimationFrame(() => setTimeout(done, 50)))");
        }
        assert_eq!(page.browser.console_messages(), [""; 0]);
        let only = format!("file://{}", page.file.canonicalize().unwrap().display());
        assert_eq!(page.browser.requests(), [only]);
        assert_eq!(
            page.ask("performance.getEntriesByType('resource').length"),
            json!(0)
        );
    }
}

#[test]
fn malicious_markup_is_shown_as_text() {
    let Some(mut page) = page(&sample::rich(), 1280, 900, false) else {
        return;
    };
    let made = page
        .ask("document.querySelectorAll('img, iframe, object, embed, link, base, form, [onerror], [onload]').length");
    assert_eq!(made, json!(0));
    assert_eq!(page.ask("document.scripts.length"), json!(3));
    let shown = page.ask("document.getElementById('Head-labels-section').textContent");
    assert_eq!(
        shown,
        json!(sample::HOSTILE.replace('\u{202e}', "[U+202E]"))
    );
    assert_eq!(
        page.ask("document.documentElement.outerHTML.includes('\\u202e')"),
        json!(false)
    );
}

#[test]
fn the_report_page_blocks_all_network_requests_of_injected_scripts() {
    let Some(mut page) = page(&sample::smallest(), 800, 600, false) else {
        return;
    };
    let tried = page.ask(
        "Promise.allSettled([
           fetch('https://example.org/'),
           new Promise((done, fail) => { const i = new Image(); i.onload = done; i.onerror = fail; i.src = 'https://example.org/i.png'; }),
           new Promise((done, fail) => { const s = document.createElement('script'); s.onload = done; s.onerror = fail; s.src = 'x.js'; document.head.append(s); }),
         ]).then((all) => all.map((one) => one.status))",
    );
    assert_eq!(tried, json!(["rejected", "rejected", "rejected"]));
    let refusals = page
        .browser
        .console_messages()
        .iter()
        .filter(|text| text.contains("Content Security Policy"))
        .count();
    assert!(refusals >= 3, "{:?}", page.browser.console_messages());
}

const SCALES: &str =
    "[...faultline.charts.values()].map((one) => [one.u.scales.x.min, one.u.scales.x.max])";

#[test]
fn dragging_zooms_all_timelines_and_double_click_or_keys_reset() {
    let Some(mut page) = page(&sample::rich(), 1280, 900, false) else {
        return;
    };
    let whole = page.ask(SCALES);
    let memory = "faultline.charts.get('memory').u.scales.x";
    let [left, top, width, height] = page.timeline("memory");
    let middle = top + height / 2.0;
    page.browser
        .drag((left + width * 0.25, middle), (left + width * 0.5, middle))
        .unwrap();
    page.wait(&format!(
        "Math.abs({memory}.min - 3600) < 30 && Math.abs({memory}.max - 7200) < 30"
    ));
    page.wait(&format!(
        "{SCALES}.every(([min, max]) => min === {memory}.min && max === {memory}.max)"
    ));
    page.browser
        .screenshot(&pictures().join("zoomed.png"), false)
        .unwrap();
    page.ask("faultline.charts.get('memory').u.over.dispatchEvent(new MouseEvent('dblclick', { bubbles: true }))");
    let whole_again = format!("JSON.stringify({SCALES}) === '{whole}'");
    page.wait(&whole_again);

    let button = |label: &str| {
        format!("document.querySelector('#Figure-memory button[aria-label^=\"{label}\"]').click()")
    };
    page.ask(&button("Zoom in"));
    page.wait(&format!("{memory}.max - {memory}.min < 7500"));
    page.ask(&button("Show the whole"));
    page.wait(&whole_again);

    page.ask("faultline.charts.get('memory').box.focus({ preventScroll: true })");
    page.browser.key("+").unwrap();
    page.browser.key("+").unwrap();
    page.wait(&format!("{memory}.max - {memory}.min < 3700"));
    page.browser.key("-").unwrap();
    page.wait(&format!("{memory}.max - {memory}.min > 7000"));
    page.browser.key("Escape").unwrap();
    page.wait(&whole_again);
}

#[test]
fn the_cursor_moves_in_all_timelines_and_shows_the_values() {
    let Some(mut page) = page(&sample::rich(), 1280, 900, false) else {
        return;
    };
    let [left, top, width, height] = page.timeline("memory");
    page.browser
        .mouse_move(left + width / 2.0 - 9.0, top + height / 2.0, false)
        .unwrap();
    page.browser
        .mouse_move(left + width / 2.0, top + height / 2.0, false)
        .unwrap();
    let at = "[...faultline.charts.values()].map((one) => one.u.posToVal(one.u.cursor.left, 'x'))";
    // The third timeline ends at two hours, where the cursor is.
    page.wait(&format!(
        "{at}.slice(0, 2).every((second) => Math.abs(second - 7200) < 20)"
    ));
    let said = page.ask(
        "[...document.querySelectorAll('#Figure-memory .legend li')].map((item) => item.innerText.replace(/\\s+/g, ' ').trim())",
    );
    let said: Vec<String> = serde_json::from_value(said).unwrap();
    assert!(
        said.iter()
            .any(|line| line.starts_with("128 GiB, run 1 12") && line.ends_with("GiB")),
        "{said:?}"
    );
    assert_eq!(
        page.ask("document.querySelector('#Figure-memory .time').textContent"),
        json!("at 2:00:00")
    );

    page.ask("faultline.charts.get('memory').box.focus({ preventScroll: true })");
    let before = page
        .ask("faultline.charts.get('memory').u.cursor.left")
        .as_f64()
        .unwrap();
    page.browser.key("ArrowRight").unwrap();
    page.wait(&format!(
        "faultline.charts.get('memory').u.cursor.left > {before}"
    ));
    page.wait("faultline.charts.get('major-faults').u.cursor.left > 0");
    let aloud = page.ask("document.querySelector('#Figure-memory .said').textContent");
    assert!(
        aloud.as_str().unwrap().contains("256 GiB, run 1 16"),
        "{aloud}"
    );
}

#[test]
fn a_checkbox_hides_its_arm_or_run_in_all_figures() {
    let Some(mut page) = page(&sample::rich(), 1280, 900, false) else {
        return;
    };
    let shown = "[...faultline.charts.values()].map((one) => one.u.series.slice(1).filter((line) => line.show).length)";
    assert_eq!(page.ask(shown), json!([10, 9, 3]));
    page.ask(
        "document.querySelector('[data-of-arm=\"64 GiB\"]').scrollIntoView({ block: 'center' })",
    );
    page.ask("document.querySelector('[data-of-arm=\"64 GiB\"]').click()");
    assert_eq!(page.ask(shown), json!([7, 6, 3]));
    let visible = |selector: &str| {
        format!(
            "[...document.querySelectorAll('{selector}')].filter((part) => part.getClientRects().length).length"
        )
    };
    assert_eq!(page.ask(&visible("figure [data-run^=r64]")), json!(0));
    assert_eq!(page.ask(&visible("figure [data-arm=\"64 GiB\"]")), json!(0));
    assert_ne!(
        page.ask(&visible("figure [data-arm=\"128 GiB\"]")),
        json!(0)
    );
    page.browser
        .screenshot(&pictures().join("arm-hidden.png"), true)
        .unwrap();

    page.ask("document.querySelector('[data-of-run=r256-2]').click()");
    assert_eq!(page.ask(shown), json!([6, 5, 3]));
    assert_eq!(
        page.ask("document.querySelector('[data-of-arm=\"256 GiB\"]').indeterminate"),
        json!(true)
    );
    page.ask("document.querySelector('[data-of-arm=\"256 GiB\"]').click()");
    page.ask("document.querySelector('[data-of-arm=\"64 GiB\"]').click()");
    assert_eq!(page.ask(shown), json!([10, 9, 3]));

    // A line of its own, in a chart where one run has several.
    page.ask("document.querySelector('#Figure-anonymous-and-file .legend input').click()");
    assert_eq!(page.ask(shown), json!([10, 9, 2]));
}

#[test]
fn the_tab_key_reaches_every_control_and_shows_where_it_is() {
    let Some(mut page) = page(&sample::rich(), 1280, 900, false) else {
        return;
    };
    let wanted = page.ask(
        "window.left = new Set([...document.querySelectorAll('a[href], button, input, summary, [tabindex=\"0\"]')]
           .filter((element) => element.getClientRects().length)); window.left.size",
    );
    let wanted = wanted.as_u64().unwrap();
    assert!(wanted > 30, "{wanted}");
    for _ in 0..wanted + 5 {
        page.browser.key("Tab").unwrap();
        let plain = page.ask(
            "(() => { const at = document.activeElement; window.left.delete(at);
               const style = getComputedStyle(at);
               return at !== document.body && (style.outlineStyle === 'none' || style.outlineWidth === '0px') ? at.outerHTML.slice(0, 200) : null; })()",
        );
        assert_eq!(plain, Value::Null, "focused without an outline");
    }
    assert_eq!(
        page.ask("[...window.left].map((element) => element.outerHTML.slice(0, 120))"),
        json!([])
    );
}

#[test]
fn the_theme_switch_overrides_the_system_preference() {
    let Some(mut page) = page(&sample::smallest(), 800, 600, true) else {
        return;
    };
    let paper = "getComputedStyle(document.body).backgroundColor";
    let dark = page.ask(paper);
    page.ask("document.getElementById('Theme').click()");
    let light = page.ask(paper);
    assert_eq!(
        (light, dark.clone()),
        (json!("rgb(255, 255, 255)"), json!("rgb(20, 23, 27)"))
    );
    page.ask("document.getElementById('Theme').click()");
    page.browser.window(800, 600, false).unwrap();
    assert_eq!(page.ask(paper), dark);
}

#[test]
fn every_colour_has_the_required_contrast() {
    let Some(mut page) = page(&sample::rich(), 1280, 900, false) else {
        return;
    };
    for dark in [false, true] {
        page.browser.window(1280, 900, dark).unwrap();
        let weak = page.ask(
            r##"(() => {
              const bytes = (hex) => [1, 3, 5].map((n) => parseInt(hex.slice(n, n + 2), 16) / 255);
              const light = (hex) => {
                const [r, g, b] = bytes(hex).map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
                return 0.2126 * r + 0.7152 * g + 0.0722 * b;
              };
              const value = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
              const ratio = (a, b) => { const [x, y] = [light(value(a)), light(value(b))].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
              const bad = [];
              const need = (least, inks, papers) => { for (const ink of inks) for (const paper of papers) {
                if (!(ratio(ink, paper) >= least)) bad.push(`${ink} on ${paper}: ${ratio(ink, paper).toFixed(2)}`);
              } };
              need(4.5, ["ink", "soft", "accent", "described", "differs", "equivalent", "inconclusive", "better", "worse"], ["paper", "panel"]);
              need(4.5, ["on"], ["pos", "neg"]);
              const tints = Array.from({ length: 13 }, (_, i) => `b${i}`);
              need(4.5, ["ink"], ["na", ...tints]);
              need(3, ["k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7", "kn", "focus"], ["paper", ...tints]);
              return bad;
            })()"##,
        );
        assert_eq!(weak, json!([]), "dark: {dark}");
    }
}

#[test]
fn without_scripts_or_in_print_static_figures_are_shown() {
    let Some(mut page) = page(&sample::rich(), 1280, 900, true) else {
        return;
    };
    let stills = "[...document.querySelectorAll('figure .still')].map((still) => still.getClientRects().length > 0)";
    let live = "[...document.querySelectorAll('.live, .tools, .choice, #Theme')].some((part) => part.getClientRects().length > 0)";
    page.browser
        .call("Emulation.setEmulatedMedia", &json!({ "media": "print" }))
        .unwrap();
    assert_eq!(page.ask(stills), json!(vec![true; 9]));
    assert_eq!(page.ask(live), json!(false));
    assert_eq!(
        page.ask("getComputedStyle(document.body).backgroundColor"),
        json!("rgb(255, 255, 255)"),
        "paper is white"
    );
    page.browser
        .call("Emulation.setEmulatedMedia", &json!({ "media": "" }))
        .unwrap();
    let pdf = pictures().join("print.pdf");
    page.browser.print(&pdf).unwrap();
    assert!(fs::read(&pdf).unwrap().starts_with(b"%PDF-"));

    page.browser.scripts(false).unwrap();
    page.browser.window(1280, 900, false).unwrap();
    let file = page.file.clone();
    page.browser.open(&file).unwrap();
    page.browser
        .screenshot(&pictures().join("no-script.png"), true)
        .unwrap();
    assert_eq!(page.ask(stills), json!(vec![true; 9]));
    assert_eq!(page.ask(live), json!(false));
    assert_eq!(page.ask(LAYOUT_PROBLEMS_SCRIPT), json!([]));
}

#[test]
fn print_and_one_button_open_everything_folded() {
    let mut report = sample::rich();
    let blocks = &mut report.sections[0].blocks;
    blocks.insert(1, Block::Fold("By run".to_owned()));
    let Some(mut page) = page(&report, 1280, 900, false) else {
        return;
    };
    let shown = "document.querySelector('#Table-tps caption').checkVisibility()";
    page.ask("document.querySelector('.fold').open = false");
    assert_eq!(page.ask(shown), json!(false));
    let summary = page.ask("document.querySelector('.fold summary').innerText");
    assert!(summary.as_str().unwrap().starts_with("By run"), "{summary}");
    page.ask("dispatchEvent(new Event('beforeprint'))");
    assert_eq!(page.ask(shown), json!(true));
    page.ask("dispatchEvent(new Event('afterprint'))");
    assert_eq!(page.ask(shown), json!(false));
    let label = "document.getElementById('Unfold').textContent";
    page.ask("document.getElementById('Unfold').click()");
    assert_eq!(page.ask(shown), json!(true));
    page.wait(&format!("{label} === 'Fold all'"));
    page.ask("document.querySelector('.fold').open = false");
    page.wait(&format!("{label} === 'Unfold all'"));
    report.folds_start_open = true;
    let Some(mut unfolded) = self::page(&report, 1280, 900, false) else {
        return;
    };
    assert_eq!(unfolded.ask(label), json!("Fold all"));
    assert!(
        render::html::page(&report)
            .unwrap()
            .contains("<details class=\"fold\" open>")
    );
}

#[test]
fn headings_landmarks_and_tables_are_what_a_screen_reader_needs() {
    let Some(mut page) = page(&sample::rich(), 1280, 900, false) else {
        return;
    };
    let bad = page.ask(
        r#"(() => {
          const bad = [];
          const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
          ids.filter((id, n) => ids.indexOf(id) !== n).forEach((id) => bad.push(`id ${id} twice`));
          for (const name of ["aria-labelledby"]) for (const element of document.querySelectorAll(`[${name}]`)) {
            if (!document.getElementById(element.getAttribute(name))) bad.push(`${name} leads nowhere: ${element.getAttribute(name)}`);
          }
          document.querySelectorAll("th:not([scope])").forEach((head) => bad.push(`a head without scope: ${head.textContent}`));
          document.querySelectorAll(".table table").forEach((table) => { if (!table.caption) bad.push("a table without caption"); });
          document.querySelectorAll("a[href^='#']").forEach((link) => { if (!document.getElementById(link.getAttribute("href").slice(1))) bad.push(`${link.href} leads nowhere`); });
          document.querySelectorAll("button, input, [role=group], [role=region], figure svg:not(.swatch)").forEach((element) => {
            const label = element.getAttribute("aria-label") || element.getAttribute("aria-labelledby") || element.closest("label")?.textContent || element.textContent;
            if (!label.trim()) bad.push(`no name: ${element.outerHTML.slice(0, 80)}`);
          });
          let level = 0;
          for (const head of document.querySelectorAll("h1, h2, h3, h4")) {
            const now = Number(head.tagName[1]);
            if (now > level + 1) bad.push(`${head.tagName} after H${level}: ${head.textContent}`);
            level = now;
          }
          if (document.querySelectorAll("main").length !== 1 || document.querySelectorAll("h1").length !== 1) bad.push("one main, one h1");
          return bad;
        })()"#,
    );
    assert_eq!(bad, json!([]));
}

/// Whether the first picture is on the first screen, and how long the page is.
fn begins_with_a_picture_and_folds(page: &mut Page, name: &str) {
    page.browser.window(1400, 900, false).unwrap();
    let bottom = page.ask(
        "Math.max(...[...document.querySelector('figure').querySelectorAll('.live, .still')]
           .map((part) => part.getBoundingClientRect().bottom)) + scrollY",
    );
    let bottom = bottom.as_f64().unwrap();
    let mut screens = |open: bool| {
        let fold = format!(
            "document.querySelectorAll('.fold').forEach((one) => {{ one.open = {open}; }})"
        );
        page.ask(&fold);
        let height = page.ask("document.documentElement.scrollHeight");
        height.as_f64().unwrap() / 900.0
    };
    let (folded, unfolded) = (screens(false), screens(true));
    let seen = format!(
        "{name}: the first picture ends at {bottom:.0} px; {folded:.1} screens, {unfolded:.1} unfolded"
    );
    println!("{seen}");
    assert!(
        bottom <= 900.0 && folded <= MAX_FOLDED_SCREENS && unfolded > folded,
        "{seen}"
    );
}

#[test]
fn the_sample_report_begins_with_a_picture_and_fits() {
    if !Browser::is_installed() {
        println!("{SKIP_MESSAGE}");
        return;
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/sample-report/report.html");
    let mut page = shown(tempfile::tempdir().unwrap(), file, (1400, 900, false));
    begins_with_a_picture_and_folds(&mut page, "sample");
    fits_every_window(&mut page, "sample");
}

/// Keeps the first screen and the whole page, with nothing folded.
fn fits_every_window(page: &mut Page, name: &str) {
    let cut_off = "[...document.querySelectorAll('#Figure-effects :is(.m, .better, .worse)')]
        .map((words) => words.textContent).filter((words) => words.endsWith('…'))";
    assert_eq!(page.ask(cut_off), json!([]), "{name}");
    let widths = [1400, 390, 360].into_iter();
    for (width, dark) in widths.flat_map(|width| [(width, false), (width, true)]) {
        page.browser.window(width, 900, dark).unwrap();
        page.ask("scrollTo(0, 0)");
        page.wait(DRAWN);
        for (end, whole) in [("-first", false), ("", true)] {
            let picture = pictures().join(format!("{name}-{width}-{dark}{end}.png"));
            page.browser.screenshot(&picture, whole).unwrap();
        }
        let problems = page.ask(LAYOUT_PROBLEMS_SCRIPT);
        assert_eq!(problems, json!([]), "{name} {width}");
    }
}

#[test]
fn recording_report_pages_fit_without_requests_or_console_errors() {
    if !Browser::is_installed() {
        println!("{SKIP_MESSAGE}");
        return;
    }
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let arms = [
        "arm-512-1",
        "arm-512-2",
        "arm-512-3",
        "arm-1024-1",
        "arm-1024-2",
        "arm-1024-3",
    ];
    for (name, runs) in [
        ("comparison", arms.as_slice()),
        ("one-run", &["restart"]),
        ("any-process", &["any-process"]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let runs = runs.iter().map(|run| fixtures.join(format!("{run}.fltl")));
        let mut command = Command::new(env!("CARGO_BIN_EXE_faultline"));
        let made = command
            .arg("report")
            .args(runs)
            .arg("--out")
            .arg(folder.path())
            .output()
            .unwrap();
        assert!(
            made.status.success(),
            "{}",
            String::from_utf8_lossy(&made.stderr)
        );
        let file = folder.path().join("report.html");
        let mut page = shown(folder, file, (1280, 900, false));
        begins_with_a_picture_and_folds(&mut page, name);
        fits_every_window(&mut page, name);
        // The answers are about a validator. They are in the first chapter.
        let answers = "document.querySelector('.answers') !== null";
        assert_eq!(page.ask(answers), json!(name != "any-process"), "{name}");
        assert_eq!(page.browser.console_messages(), [""; 0]);
        assert_eq!(
            page.browser.requests().len(),
            1,
            "{:?}",
            page.browser.requests()
        );
    }
}
