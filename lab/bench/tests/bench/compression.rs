//! Records of a node whose file cannot be written.

use crate::{bench, mock_node::start};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::json;

#[test]
fn records_that_cannot_be_saved_are_measured_but_fail_the_command() {
    let node = start(|method, _| {
        Ok(match method {
            "getSlot" => json!(60),
            "getFirstAvailableBlock" => json!(1),
            "getBlocks" => json!((1..=60).collect::<Vec<u64>>()),
            _ => json!({"transactions": [{"transaction": [STANDARD.encode([7; 200]), "base64"]}]}),
        })
    });
    let folder = tempfile::tempdir().unwrap();
    // The folder is missing. The tool notices this only when it creates the file.
    std::fs::write(folder.path().join("none"), "").unwrap();
    let save = folder.path().join("none/kept.b64").display().to_string();
    let words = [
        "compression",
        &node,
        "--codecs",
        "lz4",
        "--pace",
        "1ms",
        "-n",
        "50",
        "--save",
        &save,
    ];
    let (output, code) = bench(&words).unwrap();
    assert!(
        code == 1 && output.contains("50 records, 50 measured"),
        "{output}"
    );
    assert!(
        output.contains("the records are not saved: --save ") && output.contains("none/kept.b64"),
        "{output}"
    );
}
