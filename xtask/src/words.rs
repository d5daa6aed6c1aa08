//! Reports words that the glossary avoids in text for users: string literals, help of programs,
//! pages, alerts, dashboards, units, the package and output of scripts.

use crate::{
    rules::RULES,
    run::{has_extension, is_production_file, read, tokens, without_tests},
};
use anyhow::{Context, Result};
use proc_macro2::{TokenStream, TokenTree};
use std::path::{Path, PathBuf};

const GLOSSARY: &str = "docs/GLOSSARY.md";
const TABLE_HEADING: &str = "## Words to avoid\n";

const CODE_FOLDERS: [&str; 3] = ["crates", "daemon", "lab"];

/// Users read these folders and files, but not the comments in them.
const SHIPPED: [&str; 3] = [RULES, "grafana/dashboards", "packaging/debian/control"];
const UNIT_EXTENSIONS: [&str; 5] = ["service", "socket", "slice", "target", "timer"];
const SCRIPTS: [&str; 3] = [".ci", "packaging", "scripts"];

pub fn check(root: &Path, files: &[PathBuf], violations: &mut Vec<String>) -> Result<()> {
    let words = words_to_avoid(&read(root, Path::new(GLOSSARY))?)?;
    for file in files {
        for text in user_texts(root, file).with_context(|| file.display().to_string())? {
            if let Some(word) = words.iter().find(|word| contains_word(&text, word)) {
                violations.push(format!(
                    "{}: {word:?} in {:?}: see {GLOSSARY}",
                    file.display(),
                    text.trim()
                ));
            }
        }
    }
    Ok(())
}

fn user_texts(root: &Path, file: &Path) -> Result<Vec<String>> {
    let is_in = |folders: &[&str]| folders.iter().any(|folder| file.starts_with(folder));
    let is_documentation = file.starts_with("docs")
        && !file.starts_with("docs/decisions")
        && !file.ends_with("GLOSSARY.md");
    if (is_documentation || file == Path::new("README.md")) && has_extension(file, "md") {
        return Ok(prose(&read(root, file)?)
            .lines()
            .map(str::to_owned)
            .collect());
    }
    if is_in(&CODE_FOLDERS) && is_production_file(file) {
        // clap makes help from comments.
        let with_comments = ["cli", "cli.rs", "args.rs"]
            .iter()
            .any(|name| file.iter().any(|part| part == *name));
        let mut literals = Vec::new();
        collect_literals(
            tokens(without_tests(&read(root, file)?))?,
            with_comments,
            &mut literals,
        );
        return Ok(literals);
    }
    if is_in(&SHIPPED)
        || UNIT_EXTENSIONS
            .iter()
            .any(|extension| has_extension(file, extension))
    {
        return Ok(read(root, file)?
            .lines()
            .filter(|line| !is_comment(line))
            .map(str::to_owned)
            .collect());
    }
    if is_in(&SCRIPTS) {
        let text = read(root, file)?;
        let first = text.lines().next().unwrap_or_default();
        let is_sourced = file.extension().is_none() && first.starts_with("# ");
        if is_sourced || (first.starts_with("#!") && first.ends_with("sh")) {
            return Ok(script_texts(&text));
        }
    }
    Ok(Vec::new())
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with('#')
}

fn words_to_avoid(page: &str) -> Result<Vec<String>> {
    let (_, table) = page
        .split_once(TABLE_HEADING)
        .with_context(|| format!("{GLOSSARY}: no {TABLE_HEADING:?}"))?;
    Ok(table
        .lines()
        .filter(|line| line.starts_with('|'))
        .skip(2)
        .filter_map(|row| row.split('|').nth(1))
        .flat_map(|cell| cell.split(','))
        .map(|word| word.trim().to_lowercase())
        .collect())
}

fn prose(page: &str) -> String {
    page.split("```")
        .step_by(2)
        .flat_map(|block| block.split('`').step_by(2))
        .collect()
}

fn collect_literals(tokens: TokenStream, with_comments: bool, found: &mut Vec<String>) {
    let mut is_doc_comment = false;
    for token in tokens {
        match token {
            TokenTree::Group(group) => collect_literals(group.stream(), with_comments, found),
            TokenTree::Ident(name) => is_doc_comment = name == "doc",
            TokenTree::Literal(literal) if !is_doc_comment || with_comments => {
                found.extend(
                    Some(without_escapes(&literal.to_string())).filter(|text| text.contains('"')),
                );
            }
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

/// Replaces each escape by a space, so that the `n` of `\n` is not part of a word.
fn without_escapes(literal: &str) -> String {
    let mut letters = literal.chars();
    let mut text = String::new();
    while let Some(letter) = letters.next() {
        if letter == '\\' {
            letters.next();
        }
        text.push(if letter == '\\' { ' ' } else { letter });
    }
    text
}

/// Quoted texts, here-documents of `cat`, and indented comments, which scripts print as usage.
fn script_texts(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(usage) = line.strip_prefix("#   ") {
            found.push(usage.to_owned());
        } else if let Some(delimiter) = line.trim_start().strip_prefix("cat <<") {
            let delimiter = delimiter.trim_matches(['\'', '"']);
            found.extend(
                lines
                    .by_ref()
                    .take_while(|line| *line != delimiter)
                    .map(str::to_owned),
            );
        } else if !is_comment(line) {
            found.extend(quoted(line));
        }
    }
    found
}

fn quoted(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = line;
    while let Some(at) = rest.find(['"', '\'']) {
        let (quote, after) = rest.split_at(at).1.split_at(1);
        let (text, after) = after.split_once(quote).unwrap_or((after, ""));
        found.push(text.to_owned());
        rest = after;
    }
    found
}

fn contains_word(text: &str, word: &str) -> bool {
    let text = text.to_lowercase();
    let is_word_char = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    text.match_indices(word).any(|(at, _)| {
        let before = text.get(..at);
        let after = text.get(at + word.len()..);
        !is_word_char(before.and_then(|t| t.chars().next_back()))
            && !is_word_char(after.and_then(|t| t.chars().next()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn string_literals_are_checked_and_comments_only_as_help_text() {
        let code: TokenStream = "/// Nobody.\nfn f() { say(\"nobody listens\", 'x', 1); }"
            .parse()
            .unwrap();
        let (mut plain, mut help) = (Vec::new(), Vec::new());
        collect_literals(code.clone(), false, &mut plain);
        collect_literals(code, true, &mut help);
        assert_eq!(plain, ["\"nobody listens\""]);
        assert_eq!(help.len(), 2);
    }

    #[test]
    fn a_forbidden_word_is_found_after_an_escape() {
        let code: TokenStream = r#"fn f() { say("first\nnobody listens\\n"); }"#.parse().unwrap();
        let mut literals = Vec::new();
        collect_literals(code, false, &mut literals);
        assert_eq!(literals, ["\"first nobody listens n\""]);
        assert!(contains_word(&literals[0], "nobody"));
    }

    #[test]
    fn a_forbidden_word_matches_only_as_a_whole_word() {
        assert!(
            contains_word("\"Nobody listens\"", "nobody")
                && contains_word("it goes on.", "goes on")
        );
        assert!(!contains_word("untold", "told") && !contains_word("told_you", "told"));
    }

    #[test]
    fn a_word_with_a_capital_in_the_table_is_found_in_a_text() {
        let page = "## Words to avoid\n| word | use |\n| --- | --- |\n| OOM-ed | killed |\n";
        let words = words_to_avoid(page).unwrap();
        assert!(contains_word("it was OOM-ed.", &words[0]));
    }

    #[test]
    fn the_word_checker_reads_its_table_and_skips_code() {
        let page = "## Words to avoid\n\n| word | use |\n| --- | --- |\n| told, tells | reports |\n| mend | fix |\n";
        assert_eq!(words_to_avoid(page).unwrap(), ["told", "tells", "mend"]);
        assert_eq!(prose("a `told` b\n```\ntold\n```\nc"), "a  b\n\nc");
    }

    #[test]
    fn quoted_script_texts_are_found_but_not_comments() {
        let script = "# nobody\n#   --usage\n[ -e \"$told\" ] || fail \"it's beside\" # x\ncheck 'a name' runuser -u nobody\n\
                      cat <<'END'\nusage\nEND\nx=\"told\"\n";
        assert_eq!(
            script_texts(script),
            ["--usage", "$told", "it's beside", "a name", "usage", "told"]
        );
    }

    #[test]
    fn shipped_alerts_dashboards_units_and_scripts_have_checked_texts() {
        let root = crate::root();
        for file in [
            "grafana/prometheus/rules/faultline.alerts.yml",
            "grafana/dashboards/memory.json",
            "systemd/system/faultlined.service",
            "systemd/system/faultline-campaign@.timer",
            "packaging/debian/control",
            "packaging/debian/faultlined.postrm",
            "scripts/guest/checks",
            "scripts/guest/machine",
            "scripts/install",
            ".ci/run",
        ] {
            assert!(
                !user_texts(&root, Path::new(file)).unwrap().is_empty(),
                "{file}"
            );
        }
    }
}
