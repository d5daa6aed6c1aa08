//! Makes manual pages and shell completions for packages, from the definition that parses the
//! command line.

use clap::Command;
use clap_complete::Shell;
use clap_mangen::{
    Man,
    roff::{Roff, bold, roman},
};
use std::{
    fs,
    io::{self, Write},
    path::Path,
};

/// Locations of the programs' files in packages; `scripts/install` rewrites those in /usr/share.
/// `NAME` stands for the program's name.
const FILES: [(&str, &str); 5] = [
    (
        "/etc/faultline/faultlined.toml",
        "The daemon's configuration, see faultlined.toml(5).",
    ),
    (
        "/var/lib/faultlined",
        "The daemon's recordings. The folder flight holds those of the flight recorder.",
    ),
    (
        "/run/faultlined/metrics.sock",
        "The daemon's HTTP server, for root and the group faultline; also at 127.0.0.1:9912.",
    ),
    (
        "/usr/share/faultlined",
        "Drop-ins, units for validators, kernel settings, dashboards and alerts.",
    ),
    (
        "/usr/share/doc/NAME",
        "README.md, and below docs: installation, operation, metrics, recordings, experiments.",
    ),
];

/// Creates `folder` if it is missing, and writes the page `man/NAME.SECTION`, a page for each
/// visible subcommand (`man/NAME-SUBCOMMAND.SECTION`), and the files for shells in
/// `completions/{bash,zsh,fish}/`. The page of the program also lists `FILES`; `section` is that of
/// the manual, for example 1.
pub fn write(command: Command, section: &str, folder: &Path) -> io::Result<()> {
    let command = command.disable_help_subcommand(true);
    let (pages, completions) = (folder.join("man"), folder.join("completions"));
    fs::create_dir_all(&pages)?;
    let mut built = command.clone();
    built.build();
    write_page(&built, section, &pages)?;
    let main_page = pages.join(Man::new(built.clone()).section(section).get_filename());
    files_part(built.get_name())
        .to_writer(&mut fs::OpenOptions::new().append(true).open(main_page)?)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let folder = completions.join(shell.to_string());
        fs::create_dir_all(&folder)?;
        let mut visible = without_hidden(&command);
        let name = command.get_name();
        let file = match shell {
            Shell::Zsh => format!("_{name}"),
            Shell::Fish => format!("{name}.fish"),
            _ => name.to_owned(),
        };
        clap_complete::generate(
            shell,
            &mut visible,
            name,
            &mut fs::File::create(folder.join(file))?,
        );
    }
    Ok(())
}

/// Writes `man/NAME.5` into `folder`: the description is the whole text of the configuration file.
pub fn write_file_page(name: &str, about: &str, config: &str, folder: &Path) -> io::Result<()> {
    let folder = folder.join("man");
    fs::create_dir_all(&folder)?;
    let mut page = Roff::new();
    page.control("TH", [name, "5"]);
    page.control("SH", ["NAME"]);
    page.text([roman(format!("{name} - {about}"))]);
    page.control("SH", ["DESCRIPTION"]);
    page.control("nf", []);
    for line in config.lines() {
        page.text([roman(line)]);
    }
    page.control("fi", []);
    page.to_writer(&mut fs::File::create(folder.join(format!("{name}.5")))?)
}

fn files_part(name: &str) -> Roff {
    let mut part = Roff::new();
    part.control("SH", ["FILES"]);
    for (file_path, description) in FILES {
        part.control("TP", []);
        part.text([bold(file_path.replace("NAME", name))]);
        part.text([roman(description)]);
    }
    part
}

fn write_page(command: &Command, section: &str, folder: &Path) -> io::Result<()> {
    for subcommand in command
        .get_subcommands()
        .filter(|subcommand| !subcommand.is_hide_set())
    {
        write_page(subcommand, section, folder)?;
    }
    let page = Man::new(command.clone()).section(section);
    let mut file = fs::File::create(folder.join(page.get_filename()))?;
    page.render(&mut file)?;
    file.flush()
}

/// `clap_complete` also offers hidden subcommands, and clap cannot remove a subcommand. So this
/// builds the command again with the visible ones.
fn without_hidden(command: &Command) -> Command {
    Command::new(command.get_name().to_owned())
        .args(command.get_arguments().cloned())
        .disable_help_subcommand(true)
        .about(command.get_about().cloned().unwrap_or_default())
        // For the option `--version`: completions do not contain the version.
        .version(command.get_version().map(|_| ""))
        .subcommands(
            command
                .get_subcommands()
                .filter(|subcommand| !subcommand.is_hide_set())
                .map(without_hidden),
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Arg, ArgAction};

    fn command() -> Command {
        Command::new("tool")
            .about("Does things")
            .version("1.2.3")
            .subcommands([
                Command::new("run")
                    .about("Runs")
                    .arg(Arg::new("fast").long("fast").action(ArgAction::SetTrue)),
                Command::new("inner").hide(true),
                Command::new("group").subcommand(Command::new("deep").about("Is deep")),
            ])
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn each_visible_command_has_a_man_page() {
        let folder = tempfile::tempdir().unwrap();
        write(command(), "8", folder.path()).unwrap();
        let pages = names(&folder.path().join("man"));
        assert_eq!(
            pages,
            ["tool-group-deep.8", "tool-group.8", "tool-run.8", "tool.8"]
        );
        let page = fs::read_to_string(folder.path().join("man/tool-run.8")).unwrap();
        assert!(
            page.contains(".TH tool-run 8") && page.contains("fast") && !page.contains("FILES"),
            "{page}"
        );
        let own = fs::read_to_string(folder.path().join("man/tool.8")).unwrap();
        assert!(
            own.contains("\n.SH FILES\n.TP\n") && own.contains("/usr/share/doc/tool"),
            "{own}"
        );
    }

    #[test]
    fn shell_completions_cover_visible_commands() {
        let folder = tempfile::tempdir().unwrap();
        write(command(), "1", folder.path()).unwrap();
        for file in ["bash/tool", "zsh/_tool", "fish/tool.fish"] {
            let text = fs::read_to_string(folder.path().join("completions").join(file)).unwrap();
            assert!(
                ["fast", "deep", "version"]
                    .iter()
                    .all(|word| text.contains(word))
                    && !text.contains("inner"),
                "{file}: {text}"
            );
        }
    }

    #[test]
    fn a_file_page_preserves_lines_and_escapes_macros() {
        let folder = tempfile::tempdir().unwrap();
        write_file_page(
            "tool.toml",
            "its configuration",
            ".SH no\n'quoted'\nback\\slash = \"-\"\n",
            folder.path(),
        )
        .unwrap();
        let page = fs::read_to_string(folder.path().join("man/tool.toml.5")).unwrap();
        assert!(
            !page.contains("\n.SH no") && page.contains("back\\\\slash"),
            "{page}"
        );
    }
}
