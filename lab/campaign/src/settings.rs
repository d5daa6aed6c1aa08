use anyhow::{Context as _, Result, bail};
use faultline_common::{
    args::{UsageError, percent_within_range},
    files::AtPath,
};
use faultline_experiments::{folder::digest, lock::Lock};
use faultline_settings::{ConfigError, Table, Unique, array, number, text};
use itertools::Itertools;
use semver::VersionReq;
use std::{
    fs,
    path::{Path, PathBuf},
};
use toml::de::DeValue;

pub const SETTINGS_FILE: &str = "campaign.toml";
pub const RESULTS: &str = "results.db";

#[derive(Debug, Default)]
pub struct Campaign {
    /// Absolute.
    pub folder: PathBuf,
    pub name: String,
    /// Absolute.
    pub plan: PathBuf,
    pub plan_text: String,
    /// SHA-256.
    pub plan_digest: String,
    /// Smaller relative differences do not matter.
    pub margin: f64,
    /// The database, absolute.
    pub results: PathBuf,
    pub baseline: Program,
    pub programs: Vec<Program>,
    pub build: Option<BuildCommand>,
    pub watch: Option<Watch>,
}

/// A version of the validator.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Program {
    pub version: String,
    /// Description for the page.
    pub name: String,
    /// Absolute; `None` if [`BuildCommand`] builds the version.
    pub path: Option<PathBuf>,
}

impl Program {
    pub fn without_v(&self) -> &str {
        self.version.strip_prefix('v').unwrap_or(&self.version)
    }
}

#[derive(Debug, Default)]
pub struct BuildCommand {
    /// Program and arguments, with `{version}` and `{folder}`.
    pub command: Vec<String>,
    /// The built program, relative to `{folder}`, with `{version}`.
    pub program: String,
}

/// Where published versions come from.
#[derive(Debug)]
pub struct Watch {
    /// Only versions in this range are added.
    pub range: VersionReq,
    /// Prints versions, separated by white space; `None`: use the index.
    pub command: Option<Vec<String>>,
    pub package: String,
    pub index: String,
}

impl Campaign {
    pub fn read(folder: &Path) -> Result<Self> {
        let folder = std::path::absolute(folder).at(folder)?;
        let file = folder.join(SETTINGS_FILE);
        let content = fs::read_to_string(&file).with_context(|| {
            format!("{}: a campaign is a folder with this file", file.display())
        })?;
        let (campaign, errors) =
            faultline_settings::read(&content, Some(&file), true, |mut top| {
                let campaign = sections(&mut top, &folder);
                top.finish();
                campaign
            });
        let Some(mut campaign) = campaign.filter(|_| errors.is_empty()) else {
            bail!(usage_error(&errors))
        };
        campaign.plan_text = fs::read_to_string(&campaign.plan).at(&campaign.plan)?;
        campaign.plan_digest = digest(&campaign.plan_text);
        Ok(campaign)
    }

    fn configured(&self) -> impl Iterator<Item = &Program> {
        self.programs.iter().chain([&self.baseline])
    }

    pub fn configures(&self, version: &str) -> bool {
        self.configured().any(|program| program.version == version)
    }

    /// Locks out other processes that run or collect rounds.
    pub fn lock(&self) -> Result<Lock> {
        let folder = self.folder.display();
        Lock::take_with_message(&self.folder.join("lock"), |process| {
            format!("{folder}: this campaign is being run already{process}")
        })
    }
}

pub fn usage_error(errors: &[ConfigError]) -> UsageError {
    UsageError(errors.iter().join("\n"))
}

fn sections(top: &mut Table<'_>, folder: &Path) -> Campaign {
    let path = |v: &DeValue<'_>| text(v).map(|text| folder.join(text));
    let mut campaign = Campaign {
        folder: folder.to_owned(),
        name: top.read_required("name", text).unwrap_or_default(),
        plan: top
            .read("plan", path)
            .unwrap_or_else(|| folder.join("plan.toml")),
        results: top
            .read("results", path)
            .unwrap_or_else(|| folder.join(RESULTS)),
        margin: 0.05,
        ..Campaign::default()
    };
    top.read_into("margin", &mut campaign.margin, |v| {
        Ok(percent_within_range(number(v)?)? / 100.0)
    });
    if !top.has("baseline") {
        top.report_missing(
            "baseline",
            "[baseline] is missing: the version that all others are compared with",
        );
    }
    let mut versions = Unique::default();
    let mut new_program = |t: &mut Table<'_>| {
        let program = program(t, &path);
        let name = format!("version {}", program.version);
        if !program.version.is_empty() {
            versions.insert(
                program.version.clone(),
                t.line_of("version"),
                name,
                t.errors(),
            );
        }
        program
    };
    top.table("baseline", |t| campaign.baseline = new_program(t));
    top.tables("program", |t| campaign.programs.push(new_program(t)));
    top.table("get", |t| {
        let command = t.read_required("command", command).unwrap_or_default();
        let program = t.read_required("program", text).unwrap_or_default();
        campaign.build = Some(BuildCommand { command, program });
    });
    top.table("watch", |t| campaign.watch = Some(watch(t)));
    let needs_build = campaign.configured().any(|program| program.path.is_none());
    if campaign.build.is_none()
        && (needs_build || campaign.watch.is_some())
        && top.errors().is_empty()
    {
        top.report_missing(
            "get",
            "[get] is missing: a version without `path` has to be built, by its `command`",
        );
    }
    campaign
}

fn watch(t: &mut Table<'_>) -> Watch {
    Watch {
        range: t.read_required("range", range).unwrap_or(VersionReq::STAR),
        command: t.read("command", command),
        package: t
            .read("package", package)
            .unwrap_or_else(|| "agave-validator".to_owned()),
        index: t
            .read("index", index)
            .unwrap_or_else(|| "https://index.crates.io".to_owned()),
    }
}

fn program(t: &mut Table<'_>, path: &impl Fn(&DeValue<'_>) -> Result<PathBuf, String>) -> Program {
    Program {
        version: t
            .read_required("version", |v| checked_version(text(v)?))
            .unwrap_or_default(),
        name: t.read("name", text).unwrap_or_default(),
        path: t.read("path", path),
    }
}

/// A version becomes part of folder and arm names.
pub fn checked_version(text: String) -> Result<String, String> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '+' | '-' | '_');
    let begins_well = text.starts_with(|c: char| c.is_ascii_alphanumeric());
    if begins_well && text.len() <= 40 && text.chars().all(is_allowed) {
        return Ok(text);
    }
    Err(format!(
        "{text:?}: a version begins with a letter or digit, and has up to 40 letters, digits, dots, +, - and _, as in 2.1.14"
    ))
}

fn command(v: &DeValue<'_>) -> Result<Vec<String>, String> {
    let words = array(v, text)?;
    if words.is_empty() {
        Err("a program and its arguments are wanted".to_owned())
    } else {
        Ok(words)
    }
}

fn range(v: &DeValue<'_>) -> Result<VersionReq, String> {
    let text = text(v)?;
    VersionReq::parse(&text)
        .map_err(|error| format!("{text:?}: {error}; a range is as in \">=2.1, <3\""))
}

fn package(v: &DeValue<'_>) -> Result<String, String> {
    let text = text(v)?;
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if text.len() > 3 && text.chars().all(is_allowed) {
        Ok(text)
    } else {
        // The index has shorter names at other paths.
        Err(format!(
            "{text:?}: a package name has at least 4 letters, digits, - and _, as in agave-validator"
        ))
    }
}

fn index(v: &DeValue<'_>) -> Result<String, String> {
    let text = text(v)?;
    if text.starts_with("http://") || text.starts_with("https://") {
        Ok(text.trim_end_matches('/').to_owned())
    } else {
        Err(format!(
            "{text:?}: an address with http:// or https:// is wanted"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(content: &str) -> anyhow::Result<Campaign> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(SETTINGS_FILE), content).unwrap();
        std::fs::write(folder.path().join("plan.toml"), "name = \"x\"\n").unwrap();
        Campaign::read(folder.path())
    }

    const WHOLE: &str = "name = 'agave'\nmargin = 3\n[baseline]\nversion = '2.1.14'\npath = 'a'\n[[program]]\nversion = '2.2.0'\n\
                         name = 'new'\n[get]\ncommand = ['build', '{version}', '{folder}']\nprogram = '{version}/agave-validator'\n\
                         [watch]\nrange = '>=2.1'\n";

    #[test]
    fn a_campaign_is_read_with_its_defaults() {
        let campaign = read(WHOLE).unwrap();
        assert_eq!(
            (campaign.margin, campaign.programs[0].name.as_str()),
            (0.03, "new")
        );
        assert_eq!(campaign.baseline.path, Some(campaign.folder.join("a")));
        assert_eq!(campaign.results, campaign.folder.join(RESULTS));
        let moved = read(&format!("results = '/var/lib/x.db'\n{WHOLE}")).unwrap();
        assert_eq!(moved.results, Path::new("/var/lib/x.db"));
        let watch = campaign.watch.unwrap();
        assert_eq!(
            (watch.package.as_str(), watch.index.as_str()),
            ("agave-validator", "https://index.crates.io")
        );
    }

    #[test]
    fn every_campaign_settings_error_is_reported_with_its_line() {
        let message =
            read("name = 'a'\nmargn = 3\n[baseline]\nversion = '../x'\n[watch]\nrange = 'new'\n")
                .unwrap_err();
        let message = message.to_string();
        for (line, words) in [
            (2, "margn"),
            (4, "a version begins"),
            (6, "a range is as in"),
        ] {
            assert!(
                message.contains(&format!(":{line}: ")) && message.contains(words),
                "{words}: {message}"
            );
        }
        let message = read("name = 'a'\n[baseline]\nversion = '1'\n")
            .unwrap_err()
            .to_string();
        assert!(message.contains("[get] is missing"), "{message}");
    }

    #[test]
    fn the_error_of_a_margin_names_key_line_and_range() {
        for margin in ["0", "100"] {
            let content = WHOLE.replace("margin = 3", &format!("margin = {margin}"));
            let message = read(&content).unwrap_err().to_string();
            let wanted = ":2: margin: a percentage above 0 and below 100 is wanted";
            assert!(message.ends_with(wanted), "{message}");
        }
    }

    #[test]
    fn a_duplicate_version_is_refused_with_both_lines() {
        for (first, line) in [("2.1.14", 4), ("2.2.0", 7)] {
            let again = format!("{WHOLE}[[program]]\nversion = '{first}'\n");
            let message = read(&again).unwrap_err().to_string();
            let wanted = format!("version {first} is given twice, in lines {line} and 15");
            assert!(message.contains(&wanted), "{wanted}: {message}");
        }
    }
}
