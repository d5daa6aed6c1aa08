//! Renders the results of every subcommand as pages in a real browser. Writes pictures to `target/bench-pages`.

use crate::{bench, mock_node::start};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use faultline_testkit::browser::{Browser, LAYOUT_PROBLEMS_SCRIPT, SKIP_MESSAGE};
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Accounts by their address: so many bytes, half of them random.
fn account(params: &Value) -> Value {
    let address = bs58::decode(params[0].as_str().unwrap())
        .into_vec()
        .unwrap();
    let mut random = fastrand::Rng::with_seed(u64::from(address[0]));
    let size = usize::from(address[0]) * 500;
    let data: Vec<u8> = (0..size)
        .map(|index| if index % 64 < 32 { random.u8(..) } else { 7 })
        .collect();
    let encoding = params[1]["encoding"].as_str().unwrap();
    let data = if encoding == "base64" {
        data
    } else {
        zstd::encode_all(data.as_slice(), 3).unwrap()
    };
    json!({"context": {"slot": 9}, "value": {"data": [STANDARD.encode(data), encoding]}})
}

fn solana() -> String {
    start(|method, params| {
        Ok(match method {
            "getAccountInfo" => account(params),
            "getVersion" => json!({"solana-core": "<script>alert(1)</script>"}),
            "getSlot" => json!(500),
            "getFirstAvailableBlock" => json!(3),
            _ => json!({"of": params}),
        })
    })
}

fn evm() -> String {
    start(|method, _| {
        Ok(if method == "eth_chainId" {
            json!("0x1")
        } else {
            json!({"number": "0x7"})
        })
    })
}

/// Writes records that begin with the same bytes. Returns the path.
fn records(folder: &Path) -> String {
    let mut random = fastrand::Rng::with_seed(5);
    let record = |random: &mut fastrand::Rng| {
        [
            vec![7; 80],
            (0..random.usize(60..900)).map(|_| random.u8(..)).collect(),
        ]
        .concat()
    };
    let records: Vec<String> = (0..300)
        .map(|_| STANDARD.encode(record(&mut random)))
        .collect();
    let file = folder.join("records.b64").display().to_string();
    fs::write(&file, records.join("\n")).unwrap();
    file
}

/// Writes a plan with two arms on one node. Returns the path.
fn plan(folder: &Path, node: &str) -> String {
    let plan = folder.join("mix.toml").display().to_string();
    let mix = format!(
        "rounds = 60\n[[arm]]\nname = 'near'\nurl = '{node}'\n[[arm]]\nname = 'far'\nurl = '{node}'\nlink = '1ms'\n\
         [[request]]\nmethod = 'getSlot'\nweight = 2\n[[request]]\nmethod = 'getVersion'\n"
    );
    fs::write(&plan, mix).unwrap();
    plan
}

/// A file of results for each subcommand.
fn results(folder: &Path) -> Vec<(&'static str, PathBuf)> {
    let out = |name: &str| folder.join(format!("{name}.flb"));
    let words = |name: &'static str, words: &[&str], code: u8| {
        let file = out(name).display().to_string();
        let (output, ended) = bench(&[words, &["--out", &file]].concat()).unwrap();
        assert_eq!(ended, code, "{output}");
        (name, out(name))
    };
    let (solana, evm) = (solana(), evm());
    let accounts: Vec<String> = [2, 8, 20]
        .map(|first| bs58::encode([first; 32]).into_string())
        .into();
    let accounts = accounts.join(",");
    let file = records(folder);
    let plan = plan(folder, &solana);
    let few = [
        "--fetch",
        "40",
        "--latencies",
        "0,2ms",
        "--repeats",
        "1",
        "--dictionary",
        "4K",
    ];
    vec![
        words(
            "encoding",
            &[
                "encoding",
                &solana,
                "--accounts",
                &accounts,
                "--rounds",
                "60",
                "--links",
                "0ms,1ms",
            ],
            0,
        ),
        words("nodes", &["nodes", &solana, &solana, "--rounds", "60"], 0),
        words("run", &["run", &plan], 0),
        words(
            "transport",
            &[
                "transport",
                &evm,
                "--transports",
                "http,http-new",
                "--rounds",
                "20",
            ],
            0,
        ),
        words(
            "compression",
            &[["compression", "--files", &file].as_slice(), &few].concat(),
            0,
        ),
    ]
}

#[test]
fn every_preset_page_is_self_contained_and_starts_with_study_tables() {
    let folder = tempfile::tempdir().unwrap();
    for (name, file) in results(folder.path()) {
        let (file, page) = (
            file.display().to_string(),
            folder.path().join(format!("{name}.html")),
        );
        let words = ["report", &file, "--html", &page.display().to_string()];
        assert_eq!(bench(&words).unwrap(), (format!("{}\n", page.display()), 0));
        assert!(bench(&words).is_err(), "nothing is overwritten");
        let html = fs::read_to_string(&page).unwrap();
        assert!(!html.contains("<script>alert"), "what nodes say is text");
        assert!(
            name == "compression" || html.contains("Latency over time"),
            "{name}"
        );
        assert_eq!(
            html.contains("getAccountInfo"),
            name == "encoding",
            "{name}"
        );
        let first = html.find("class=\"chapter\"").expect("chapters");
        assert!(
            html[first..].starts_with(r#"class="chapter" aria-labelledby="Head-study""#),
            "{name}"
        );
        let whole = folder.path().join(name).display().to_string();
        bench(&["report", &file, "--html", &whole]).unwrap();
        assert!(
            fs::read_dir(folder.path().join(name).join("tables"))
                .unwrap()
                .count()
                > 1,
            "{name}"
        );
        in_a_browser(name, &page);
    }
}

fn in_a_browser(name: &str, page: &Path) {
    if !Browser::is_installed() {
        println!("{SKIP_MESSAGE}");
        return;
    }
    let pictures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/bench-pages");
    fs::create_dir_all(&pictures).unwrap();
    let mut browser = Browser::start().unwrap();
    browser.window(1280, 900, false).unwrap();
    browser.open(page).unwrap();
    browser.evaluate("faultline.drawAll()").unwrap();
    let widths = [1400, 390, 360].into_iter();
    for (width, dark) in widths.flat_map(|width| [(width, false), (width, true)]) {
        browser.window(width, 900, dark).unwrap();
        browser
            .evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done, 300)))")
            .unwrap();
        browser
            .screenshot(&pictures.join(format!("{name}-{width}-{dark}.png")), true)
            .unwrap();
        assert_eq!(
            browser.evaluate(LAYOUT_PROBLEMS_SCRIPT).unwrap(),
            json!([]),
            "{name} {width}"
        );
    }
    let first = "[...document.querySelectorAll('figure')].map((one) => one.id)[0]";
    // Without a bounded interval, as on a busy machine, there are no effects.
    let has_effects = fs::read_to_string(page).unwrap().contains("Figure-effects");
    let expected = if has_effects {
        "Figure-effects"
    } else {
        "Figure-latency-over-time"
    };
    assert_eq!(browser.evaluate(first).unwrap(), expected, "{name}");
    assert_eq!(browser.console_messages(), [""; 0]);
    assert_eq!(browser.requests().len(), 1, "{:?}", browser.requests());
    browser
        .print(&pictures.join(format!("{name}.pdf")))
        .unwrap();
}
