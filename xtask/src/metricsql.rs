//! The rules for vmalert. In MetricsQL, `increase`, `delta` and `changes` count a new series'
//! first sample as a change from 0; the `_prometheus` variants do not. `rate` needs two
//! samples in both languages. It stays, because `rate_prometheus` does not extrapolate and is
//! 20 % too low with 60 s scrapes.

use crate::{
    rules::{RULES, expression, expressions, files},
    run::{self, read},
};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};

const FOLDER: &str = "grafana/prometheus/metricsql";

const HEAD: &str = "\
# Generated from the file of the same name in ../rules by `cargo run -p xtask -- metricsql`; do not edit. For vmalert.
";

pub fn write(root: &Path) -> Result<()> {
    for (file, text) in variants(root)? {
        run::write(root, &file, &text)?;
    }
    Ok(())
}

pub fn check(root: &Path) -> Result<()> {
    for (file, text) in variants(root)? {
        run::check_written(root, &file, &text, "metricsql")?;
    }
    Ok(())
}

fn variants(root: &Path) -> Result<Vec<(PathBuf, String)>> {
    let variant = |file: PathBuf| {
        let name = file.file_name().context("a file without a name")?;
        let (text, replaced) = replace(&read(root, &file)?);
        let calls: usize = expressions(root, &file)?
            .iter()
            .map(|one| words(one).filter(is_function).count())
            .sum();
        if replaced != calls {
            bail!(
                "{}: {replaced} calls were replaced, its expressions name the functions {calls} times",
                file.display()
            );
        }
        Ok((Path::new(FOLDER).join(name), HEAD.to_owned() + &text))
    };
    files(root, RULES, "yml")?
        .into_iter()
        .map(variant)
        .collect()
}

const FUNCTIONS: [&str; 3] = ["changes", "delta", "increase"];

fn is_function(word: &&str) -> bool {
    FUNCTIONS.contains(word)
}

fn words(text: &str) -> impl DoubleEndedIterator<Item = &str> {
    text.split(|c: char| !expression::is_name(c))
}

/// The text without comments and empty lines, and how many calls were replaced.
fn replace(text: &str) -> (String, usize) {
    let mut result = String::new();
    let mut replaced = 0;
    let has_code = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    for line in text.lines().filter(has_code) {
        let mut parts = line.split('(').peekable();
        while let Some(part) = parts.next() {
            result.push_str(part);
            if parts.peek().is_some() {
                if words(part).next_back().filter(is_function).is_some() {
                    result.push_str("_prometheus");
                    replaced += 1;
                }
                result.push('(');
            }
        }
        result.push('\n');
    }
    (result, replaced)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_calls_are_replaced() {
        let text = "# increase(a)\n\nexpr: increase(a[5m]) > 0 and instance:b:increase (c) + rate(d[1m])\n";
        let (variant, replaced) = replace(text);
        assert_eq!(
            variant,
            "expr: increase_prometheus(a[5m]) > 0 and instance:b:increase (c) + rate(d[1m])\n"
        );
        assert_eq!(replaced, 1);
    }
}
