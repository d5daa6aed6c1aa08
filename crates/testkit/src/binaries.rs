//! Finds the real validator and other programs on this machine.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
};

const VALIDATOR: &str = "agave-validator";
const TEST_VALIDATOR: &str = "solana-test-validator";

/// The programs a cluster is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binaries {
    /// `agave-validator`, the follower.
    pub validator: PathBuf,
    /// `solana-test-validator`, the leader.
    pub test_validator: PathBuf,
    /// The memo program to load; 4.x and newer refuse 1.0.0 and get 3.0.0.
    pub memo_program: PathBuf,
    /// From the folder's name; empty if the name is no version.
    pub version: Vec<u32>,
}

/// What to print when a test is skipped because [`Binaries::find`] found nothing.
pub const SKIP_MESSAGE: &str = "SKIPPED: no real validator here. Set FAULTLINE_AGAVE_BIN to a folder with agave-validator \
     and solana-test-validator, and FAULTLINE_AGAVE_PROGRAMS to one with spl_memo-1.0.0.so \
     (for Agave 4 and newer spl_memo-3.0.0.so)";

/// What to print when a test is skipped because [`traced_validator`] found nothing.
pub const UNTRACED_MESSAGE: &str = "SKIPPED: no validator that writes what its program cache does. Build one with \
     scripts/install-agave --trace, and set FAULTLINE_AGAVE_TRACE_BIN to its folder";

/// What to print when a test is skipped because [`geth`] found nothing.
pub const NO_GETH_MESSAGE: &str = "SKIPPED: no geth here. Build one with scripts/install-geth, or set FAULTLINE_GETH_BIN to the program";

/// `geth`: `FAULTLINE_GETH_BIN`, or where `scripts/install-geth` puts it.
pub fn geth() -> Option<PathBuf> {
    if let Some(given) = env::var_os("FAULTLINE_GETH_BIN") {
        return existing(PathBuf::from(given));
    }
    existing(cache()?.join("geth/geth"))
}

/// What to print when a test is skipped because [`victoriametrics`] found nothing.
pub const NO_VICTORIAMETRICS_MESSAGE: &str = "SKIPPED: no VictoriaMetrics here. Build it with scripts/install-victoriametrics, or set \
     FAULTLINE_VICTORIAMETRICS to its folder";

/// A program that `scripts/install-victoriametrics` built, from its folder or `FAULTLINE_VICTORIAMETRICS`.
pub fn victoriametrics(program: &str) -> Option<PathBuf> {
    let given = env::var_os("FAULTLINE_VICTORIAMETRICS").map(PathBuf::from);
    let folder = given.or_else(|| Some(cache()?.join("victoriametrics")))?;
    existing(folder.join(program))
}

/// The folder for the programs of the installers in `scripts`.
fn cache() -> Option<PathBuf> {
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")))?;
    Some(cache.join("faultline"))
}

/// What to print when a test is skipped because [`starknet_devnet`] found nothing.
pub const NO_STARKNET_MESSAGE: &str = "SKIPPED: no starknet-devnet here. Build one with `cargo install --locked starknet-devnet --version 0.10.1`, and set \
     FAULTLINE_STARKNET_DEVNET to the program";

/// `starknet-devnet`: `FAULTLINE_STARKNET_DEVNET`.
pub fn starknet_devnet() -> Option<PathBuf> {
    existing(PathBuf::from(env::var_os("FAULTLINE_STARKNET_DEVNET")?))
}

/// `agave-validator` as `scripts/install-agave --trace` builds it, from the folder `FAULTLINE_AGAVE_TRACE_BIN`.
pub fn traced_validator() -> Option<PathBuf> {
    existing(folder_of(Path::new(&env::var_os("FAULTLINE_AGAVE_TRACE_BIN")?)).join(VALIDATOR))
}

/// What to print when a test is skipped because [`migrating_validator`] found nothing.
pub const NO_MIGRATION_MESSAGE: &str = "SKIPPED: no validator that migrates to Alpenglow. Build one with \
     `scripts/install-agave 4.5.0-alpha.4`, and set FAULTLINE_AGAVE_ALPENGLOW_BIN to its folder";

/// `solana-test-validator` 4.5 as `scripts/install-agave` builds it, from the folder `FAULTLINE_AGAVE_ALPENGLOW_BIN`.
pub fn migrating_validator() -> Option<PathBuf> {
    let folder = env::var_os("FAULTLINE_AGAVE_ALPENGLOW_BIN")?;
    existing(folder_of(Path::new(&folder)).join(TEST_VALIDATOR))
}

impl Binaries {
    /// Looks in `FAULTLINE_AGAVE_BIN` (a folder, or `agave-validator` itself), then in the newest version's folder of
    /// `../shared/agave` beside the workspace, then in `PATH`. The memo program is looked for in
    /// `FAULTLINE_AGAVE_PROGRAMS`, in `programs` within or beside the folder of the validator, and in
    /// `../shared/agave/programs`.
    ///
    /// `None` if one of the three files is in none of these folders. If a variable is set, only its folder is searched.
    pub fn find() -> Option<Self> {
        let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/agave");
        Self::find_with(|name| env::var_os(name), &shared)
    }

    fn find_with(variable: impl Fn(&str) -> Option<OsString>, shared: &Path) -> Option<Self> {
        let folder = match variable("FAULTLINE_AGAVE_BIN") {
            Some(given) => folder_of(Path::new(&given)),
            None => newest_version(shared).or_else(|| in_path(&variable("PATH")?))?,
        };
        let memo_folders = match variable("FAULTLINE_AGAVE_PROGRAMS") {
            Some(given) => vec![PathBuf::from(given)],
            None => vec![
                folder.join("programs"),
                folder.join("../programs"),
                shared.join("programs"),
            ],
        };
        let version = version(&folder).unwrap_or_default();
        let memo = if version >= vec![4] {
            "spl_memo-3.0.0.so"
        } else {
            "spl_memo-1.0.0.so"
        };
        Some(Self {
            validator: existing(folder.join(VALIDATOR))?,
            test_validator: existing(folder.join(TEST_VALIDATOR))?,
            memo_program: memo_folders
                .into_iter()
                .find_map(|folder| existing(folder.join(memo)))?,
            version,
        })
    }
}

/// The program of that name in `PATH`.
pub fn in_search_path(name: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?).find_map(|folder| existing(folder.join(name)))
}

fn in_path(path: &OsString) -> Option<PathBuf> {
    env::split_paths(path).find(|folder| is_complete(folder))
}

fn folder_of(given: &Path) -> PathBuf {
    match given.parent() {
        Some(parent) if given.is_file() => parent.to_owned(),
        _ => given.to_owned(),
    }
}

fn is_complete(folder: &Path) -> bool {
    folder.join(VALIDATOR).is_file() && folder.join(TEST_VALIDATOR).is_file()
}

fn newest_version(shared: &Path) -> Option<PathBuf> {
    let folders = std::fs::read_dir(shared)
        .ok()?
        .flatten()
        .map(|entry| entry.path());
    folders
        .filter(|folder| is_complete(folder))
        .filter_map(|folder| Some((version(&folder)?, pre_release_rank(&folder), folder)))
        .max()
        .map(|(_, _, folder)| folder)
}

/// Orders folders of one version as SemVer does: `4.5.0-alpha.9`, `4.5.0-alpha.10`, `4.5.0`.
fn pre_release_rank(folder: &Path) -> (bool, Vec<Result<u64, String>>) {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let pre_release = name.split_once('-').map(|(_, pre_release)| pre_release);
    let parts = pre_release.iter().flat_map(|text| text.split('.'));
    let rank = parts.map(|part| part.parse().map_err(|_| part.to_owned()));
    (pre_release.is_none(), rank.collect())
}

/// `[4, 5, 0]` for a folder named `4.5.0` or `4.5.0-alpha.4`; `None` when a part is not a number.
fn version(folder: &Path) -> Option<Vec<u32>> {
    let name = folder.file_name()?.to_str()?;
    let release = name.split_once('-').map_or(name, |(release, _)| release);
    release.split('.').map(|part| part.parse().ok()).collect()
}

fn existing(path: PathBuf) -> Option<PathBuf> {
    path.is_file().then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(folder: &Path, files: &[&str]) {
        std::fs::create_dir_all(folder).unwrap();
        for file in files {
            std::fs::write(folder.join(file), "").unwrap();
        }
    }

    fn validators(folder: &Path) {
        touch(folder, &[VALIDATOR, TEST_VALIDATOR]);
    }

    #[test]
    fn the_newest_version_is_found_by_number_and_a_release_before_its_alpha() {
        let shared = tempfile::tempdir().unwrap();
        for version in ["2.1.14", "2.1.9", "captures"] {
            validators(&shared.path().join(version));
        }
        touch(
            &shared.path().join("programs"),
            &["spl_memo-1.0.0.so", "spl_memo-3.0.0.so"],
        );
        let found = Binaries::find_with(|_| None, shared.path()).unwrap();
        assert!(found.validator.ends_with("2.1.14/agave-validator"));
        assert!(found.memo_program.ends_with("spl_memo-1.0.0.so"));
        validators(&shared.path().join("10.0.0-alpha.4"));
        let found = Binaries::find_with(|_| None, shared.path()).unwrap();
        assert!(
            found
                .test_validator
                .ends_with("10.0.0-alpha.4/solana-test-validator")
        );
        assert!(found.memo_program.ends_with("spl_memo-3.0.0.so"));
        for version in ["10.0.0-alpha.9", "10.0.0-alpha.10"] {
            validators(&shared.path().join(version));
        }
        let found = Binaries::find_with(|_| None, shared.path()).unwrap();
        assert!(found.validator.ends_with("10.0.0-alpha.10/agave-validator"));
        validators(&shared.path().join("10.0.0"));
        let found = Binaries::find_with(|_| None, shared.path()).unwrap();
        assert!(found.validator.ends_with("10.0.0/agave-validator"));
    }

    #[test]
    fn the_environment_variable_wins_even_if_its_path_is_missing() {
        let shared = tempfile::tempdir().unwrap();
        validators(&shared.path().join("2.1.14"));
        touch(&shared.path().join("programs"), &["spl_memo-1.0.0.so"]);
        let own = tempfile::tempdir().unwrap();
        validators(own.path());
        let given = |path: PathBuf| {
            move |name: &str| (name == "FAULTLINE_AGAVE_BIN").then(|| path.clone().into())
        };
        let found = Binaries::find_with(given(own.path().join(VALIDATOR)), shared.path()).unwrap();
        assert_eq!(found.test_validator, own.path().join(TEST_VALIDATOR));
        assert_eq!(
            Binaries::find_with(given(own.path().join("nowhere")), shared.path()),
            None
        );
    }

    #[test]
    fn a_folder_in_the_search_path_is_the_last_resort() {
        let nothing = tempfile::tempdir().unwrap();
        let own = tempfile::tempdir().unwrap();
        validators(own.path());
        touch(&own.path().join("programs"), &["spl_memo-1.0.0.so"]);
        let path = std::env::join_paths([nothing.path(), own.path()]).unwrap();
        let found = Binaries::find_with(
            |name| (name == "PATH").then(|| path.clone()),
            nothing.path(),
        );
        assert_eq!(found.unwrap().validator, own.path().join(VALIDATOR));
        assert_eq!(Binaries::find_with(|_| None, nothing.path()), None);
    }
}
