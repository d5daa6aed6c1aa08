use anyhow::{Context, bail};
use std::path::Path;
use std::process::Command;

#[expect(clippy::disallowed_methods, reason = "a chore runs programs itself")]
pub(crate) fn output(root: &Path, program: &str, arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(root)
        .output()
        .with_context(|| format!("{program} cannot be run"))?;
    if !output.status.success() {
        bail!(
            "{program} {}: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

pub(crate) fn read(root: &Path, file: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(root.join(file))
        .with_context(|| format!("{} cannot be read", file.display()))
}
