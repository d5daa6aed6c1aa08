use faultline_core::config::Config;
use std::{os::unix::fs::PermissionsExt, path::Path};

pub fn warnings<'p>(config: &'p Config, more: impl Iterator<Item = &'p Path>) -> Vec<String> {
    let all = config
        .secret_files
        .iter()
        .map(|file| file.as_path())
        .chain(more);
    all.filter(|file| is_world_accessible(file))
        .map(warning)
        .collect()
}

fn warning(file: &Path) -> String {
    let file = file.display();
    format!(
        "{file} holds a secret, and every user of this machine may read or change it: chmod o-rwx {file}"
    )
}

/// True if every user can read or write the file: its mode and all folders above it allow that.
fn is_world_accessible(file: &Path) -> bool {
    let Ok(file) = file.canonicalize() else {
        return false;
    };
    let mode =
        |path: &Path| std::fs::metadata(path).map_or(0, |metadata| metadata.permissions().mode());
    mode(&file) & 0o006 != 0
        && file
            .ancestors()
            .skip(1)
            .all(|folder| mode(folder) & 0o001 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, set_permissions, write};

    #[test]
    fn secret_files_accessible_to_others_are_reported_unless_their_folder_protects() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        write(&file, "x").unwrap();
        let warned = |of_the_folder: u32, of_the_file: u32| {
            set_permissions(folder.path(), Permissions::from_mode(of_the_folder)).unwrap();
            set_permissions(&file, Permissions::from_mode(of_the_file)).unwrap();
            let config = Config {
                secret_files: vec![file.clone()],
                ..Config::default()
            };
            warnings(&config, std::iter::empty()).len()
        };
        assert_eq!(
            (
                warned(0o755, 0o640),
                warned(0o755, 0o644),
                warned(0o755, 0o602)
            ),
            (0, 1, 1)
        );
        assert_eq!(warned(0o750, 0o666), 0);
    }
}
