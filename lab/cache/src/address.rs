use faultline_cache_sim::trace::Loader;

pub type Address = [u8; 32];

const LOADERS: [(&str, Loader); 4] = [
    ("BPFLoader1111111111111111111111111111111111", Loader::V1),
    ("BPFLoader2111111111111111111111111111111111", Loader::V2),
    ("BPFLoaderUpgradeab1e11111111111111111111111", Loader::V3),
    ("LoaderV411111111111111111111111111111111111", Loader::V4),
];
/// Loader v3 takes this account only to deploy or upgrade a program.
pub const CLOCK: &str = "SysvarC1ock11111111111111111111111111111111";

pub fn loader(account: &str) -> Option<Loader> {
    LOADERS
        .iter()
        .find(|(key, _)| *key == account)
        .map(|(_, loader)| *loader)
}

pub fn parse(text: &str) -> Option<Address> {
    let mut key = [0; 32];
    // 32 bytes have 32 to 44 base58 characters.
    ((32..=44).contains(&text.len()) && bs58::decode(text).onto(&mut key) == Ok(32)).then_some(key)
}

pub fn text(address: &Address) -> String {
    bs58::encode(address).into_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_round_trip_and_loader_programs_are_known() {
        for (key, kind) in LOADERS {
            assert_eq!(text(&parse(key).unwrap()), key);
            assert_eq!(loader(key), Some(kind));
        }
        assert!(parse(CLOCK).is_some() && loader(CLOCK).is_none());
        for bad in ["", "1", "0OIl", &"1".repeat(45), &"z".repeat(44)] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
