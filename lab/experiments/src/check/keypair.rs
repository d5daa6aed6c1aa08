use std::path::Path;

/// 64 numbers in JSON.
const LONGEST: u64 = 4096;

pub(super) fn check(file: &Path) -> Result<(), String> {
    public_key(file)
        .map(drop)
        .map_err(|_| "is no keypair as solana-keygen writes it".to_owned())
}

/// Errors never include the file's content.
pub(super) fn public_key(file: &Path) -> Result<String, String> {
    let no_keypair = || {
        format!(
            "{} is no keypair as solana-keygen writes it",
            file.display()
        )
    };
    let meta = std::fs::metadata(file).map_err(|error| format!("{}: {error}", file.display()))?;
    if !meta.is_file() || meta.len() > LONGEST {
        return Err(no_keypair());
    }
    let text = std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let bytes: Vec<u8> = serde_json::from_slice(&text).map_err(|_| no_keypair())?;
    match bytes.split_at_checked(32) {
        Some((_, public)) if public.len() == 32 => Ok(bs58::encode(public).into_string()),
        _ => Err(no_keypair()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_public_half_is_read_and_nothing_of_the_secret_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("id.json");
        let mut key = vec![7_u8; 32];
        key.extend([0; 32]);
        std::fs::write(&file, serde_json::to_string(&key).unwrap()).unwrap();
        // The system program's address: 32 zero bytes.
        assert_eq!(public_key(&file).unwrap(), "1".repeat(32));
        for bad in ["[1,2,3]", "no", "[300]", "{}"] {
            std::fs::write(&file, bad).unwrap();
            assert!(
                public_key(&file)
                    .unwrap_err()
                    .ends_with("is no keypair as solana-keygen writes it")
            );
        }
        assert!(public_key(&folder.path().join("none")).is_err());
    }
}
