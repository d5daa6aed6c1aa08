//! Checks rules of the source tree: sizes of files, dependencies, unwanted words, amount of code.

use crate::{
    generated, members, modules, pages, rules,
    run::{has_extension, is_production_file, output, read, tokens, without_tests},
    words,
};
use anyhow::{Context, Result, ensure};
use proc_macro2::{TokenStream, TokenTree};
use serde::Deserialize;
use std::path::{Path, PathBuf};

const MAX_LINES: usize = 500;

/// Texts that no file may contain. The lint limits the lines of a function, with no exceptions.
const UNWANTED: [&str; 6] = [
    "/work/",
    "FIXME",
    "XXX",
    "todo!(",
    "unimplemented!(",
    "clippy::too_many_lines",
];

pub fn check(root: &Path) -> Result<()> {
    let files = tracked(root)?;
    let mut violations = Vec::new();
    for file in &files {
        // Skips files that are not text.
        let Ok(text) = read(root, file) else { continue };
        if has_extension(file, "rs") {
            check_size(file, &text, &mut violations);
        }
        check_unwanted_words(file, &text, &mut violations);
    }
    let members = members::read_table(root)?;
    members::check(root, &members, &mut violations)?;
    pages::check(root, &files, &mut violations)?;
    let folders: Vec<&str> = members
        .iter()
        .map(|member| member.folder.as_str())
        .collect();
    modules::check(root, &files, &folders, &mut violations)?;
    rules::check(root, &mut violations)?;
    let generated_rules = generated::metricsql_rules(root)?;
    violations.extend(generated::differences(root, generated_rules, "metricsql"));
    words::check(root, &files, &mut violations)?;
    check_budget(root, &files, &mut violations)?;
    ensure!(
        violations.is_empty(),
        "violations in the tree: {}\n  {}",
        violations.len(),
        violations.join("\n  ")
    );
    println!("tidy: {} files", files.len());
    Ok(())
}

fn tracked(root: &Path) -> Result<Vec<PathBuf>> {
    let arguments = [
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ];
    Ok(output(root, "git", &arguments)?
        .split('\0')
        .map(PathBuf::from)
        .filter(|file| root.join(file).is_file())
        .collect())
}

fn check_size(file: &Path, text: &str, violations: &mut Vec<String>) {
    let has_part = |name: &&str| file.iter().any(|part| part == *name);
    if ["tests", "benches", "fuzz", "tests.rs"]
        .iter()
        .any(has_part)
    {
        return;
    }
    let lines = without_tests(text).count();
    if lines > MAX_LINES {
        let name = file.display();
        violations.push(format!(
            "{name}: {lines} lines without tests; limit: {MAX_LINES}"
        ));
    }
}

fn check_unwanted_words(file: &Path, text: &str, violations: &mut Vec<String>) {
    // This file has the list. Digests of packages can contain any letters.
    if file.starts_with("xtask/src/tidy.rs") || file.ends_with("package-lock.json") {
        return;
    }
    for (number, line) in text.lines().enumerate() {
        if let Some(word) = UNWANTED.iter().find(|word| line.contains(**word)) {
            violations.push(format!(
                "{}:{}: {word:?} is not allowed",
                file.display(),
                number + 1
            ));
        }
    }
}

/// A list of [`Amount`]s. The last entry is the limit; a higher limit is a new entry.
const BUDGET_FILE: &str = "xtask/budget.yml";

/// Words of names that tell a story about a thing instead of naming it.
#[rustfmt::skip]
const STORY_WORDS: [&str; 42] = [
    "told", "tell", "tells", "heard", "said", "says", "looked", "look", "beside", "nobody",
    "somebody", "asked", "asker", "wish", "wants", "whom", "held", "hold", "room", "place", "way",
    "ways", "course", "story", "eyes", "leg", "farewell", "parcel", "lives", "seldom", "rarely",
    "pretend", "trouble", "around", "remark", "world", "kept", "inlet", "hopeless", "earns",
    "whence", "whose",
];

#[derive(Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Amount {
    tokens: usize,
    comment_bytes: usize,
    story_words: usize,
    #[serde(default)]
    reason: String,
}

/// Fails if production Rust grows beyond the limit: tokens, bytes of comments, and
/// `STORY_WORDS` in identifiers.
fn check_budget(root: &Path, files: &[PathBuf], violations: &mut Vec<String>) -> Result<()> {
    let entries: Vec<Amount> = serde_saphyr::from_str(&read(root, Path::new(BUDGET_FILE))?)
        .with_context(|| format!("{BUDGET_FILE} cannot be read"))?;
    let limit = entries
        .last()
        .context("the list is empty")
        .context(BUDGET_FILE)?;
    if entries.iter().any(|entry| entry.reason.is_empty()) {
        violations.push(format!("{BUDGET_FILE}: each entry needs a reason"));
    }
    let mut found = Amount::default();
    for file in files.iter().filter(|file| is_production_file(file)) {
        found
            .add(&read(root, file)?)
            .with_context(|| file.display().to_string())?;
    }
    for (what, found, limit) in [
        ("tokens", found.tokens, limit.tokens),
        ("comment_bytes", found.comment_bytes, limit.comment_bytes),
        ("story_words", found.story_words, limit.story_words),
    ] {
        if found > limit {
            violations.push(format!(
                "{what} of production Rust: {found}; {BUDGET_FILE} allows {limit}: \
                 remove code, or add an entry with a reason to that file"
            ));
        }
    }
    Ok(())
}

impl Amount {
    fn add(&mut self, text: &str) -> Result<()> {
        let (comments, code): (Vec<&str>, Vec<&str>) =
            without_tests(text).partition(|line| line.trim_start().starts_with("//"));
        self.comment_bytes += comments.iter().map(|line| line.trim().len()).sum::<usize>();
        self.count(tokens(code.into_iter())?);
        Ok(())
    }

    fn count(&mut self, tokens: TokenStream) {
        for token in tokens {
            self.tokens += 1;
            match token {
                TokenTree::Group(group) => {
                    self.tokens += 1;
                    self.count(group.stream());
                }
                TokenTree::Ident(ident) => {
                    let words = identifier_words(&ident.to_string());
                    let is_story = |word: &String| STORY_WORDS.contains(&word.as_str());
                    self.story_words += words.iter().filter(|word| is_story(word)).count();
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }
}

/// `LastHeard`, `last_heard` and `LAST_HEARD` each have the words `last` and `heard`.
fn identifier_words(identifier: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut after_lower = false;
    for letter in identifier.chars() {
        if letter == '_' || letter.is_uppercase() && after_lower {
            words.push(String::new());
        }
        after_lower = letter.is_lowercase();
        if let Some(word) = words.last_mut().filter(|_| letter != '_') {
            word.extend(letter.to_lowercase());
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_whose_name_git_quotes_is_checked() {
        let root = std::env::temp_dir().join(format!("xtask-tidy-{}", std::process::id()));
        std::fs::create_dir_all(&root).unwrap();
        output(&root, "git", &["init", "--quiet"]).unwrap();
        std::fs::write(root.join("größe.rs"), "").unwrap();
        let files = tracked(&root);
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(files.unwrap(), [PathBuf::from("größe.rs")]);
    }

    #[test]
    fn tokens_comments_and_words_of_a_file_are_counted() {
        let text = "//! Head.\nfn last_told(held_back: u8) -> Told {\n    // Why.\n    NOT_ASKED(\"told\")\n}\n#[cfg(test)]\nmod tests {}\n";
        let mut found = Amount::default();
        found.add(text).unwrap();
        let expected = Amount {
            tokens: 16,
            comment_bytes: 16,
            story_words: 4,
            reason: String::new(),
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn every_form_of_an_allowed_long_function_is_reported() {
        for code in [
            "#[allow(clippy::too_many_lines)]",
            "#![expect(clippy::too_many_lines)]",
            "#[expect(\n    clippy::too_many_lines,\n    reason = \"x\"\n)]",
        ] {
            let mut violations = Vec::new();
            check_unwanted_words(Path::new("a.rs"), code, &mut violations);
            assert_eq!(violations.len(), 1, "{code}");
        }
    }

    #[test]
    fn tests_and_witness_code_are_not_production() {
        assert!(is_production_file(Path::new("daemon/sources/src/tick.rs")));
        for file in [
            "daemon/sources/src/tick/tests.rs",
            "witness/a/src/main.rs",
            "daemon/sources/src/tick.md",
        ] {
            assert!(!is_production_file(Path::new(file)), "{file}");
        }
    }
}
