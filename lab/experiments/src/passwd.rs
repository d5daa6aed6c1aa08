use anyhow::{Context, Result};
use faultline_common::files::AtPath;
use faultline_runner::isolation::folders::UserAndGroup;
use itertools::Itertools;
use std::path::{Path, PathBuf};

const FILE: &str = "/etc/passwd";

#[derive(Debug, PartialEq)]
pub struct Account {
    pub name: String,
    pub ids: UserAndGroup,
    pub home: PathBuf,
}

pub fn read() -> Result<Vec<Account>> {
    Ok(parse(&std::fs::read_to_string(FILE).at(Path::new(FILE))?))
}

pub fn account(name: &str) -> Result<Account> {
    read()?
        .into_iter()
        .find(|account| account.name == name)
        .with_context(|| format!("{FILE}: there is no user {name}"))
}

pub fn parse(text: &str) -> Vec<Account> {
    let account = |line: &str| {
        let (name, _, uid, gid, _, home) = line.split(':').next_tuple()?;
        Some(Account {
            name: name.to_owned(),
            ids: UserAndGroup {
                uid: uid.parse().ok()?,
                gid: gid.parse().ok()?,
            },
            home: home.into(),
        })
    };
    text.lines().filter_map(account).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn home_uid_and_gid_of_a_user_come_from_passwd() {
        let passwd =
            "root:x:0:0:root:/root:/bin/bash\nsol:x:1000:1001::/home/sol:/bin/sh\nbad:x:y:1:::\n";
        let accounts = parse(passwd);
        assert_eq!(accounts.len(), 2);
        let sol = Account {
            name: "sol".to_owned(),
            ids: UserAndGroup {
                uid: 1000,
                gid: 1001,
            },
            home: "/home/sol".into(),
        };
        assert_eq!(accounts[1], sol);
    }
}
