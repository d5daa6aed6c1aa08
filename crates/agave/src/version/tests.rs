use super::*;

fn version(text: &str) -> Version {
    Version::parse(text).unwrap()
}

#[test]
fn versions_are_read_as_validators_tell_them() {
    for (text, number, suffix, client) in [
        ("2.1.14", (2, 1, 14), None, None),
        ("v3.0.0-beta.1", (3, 0, 0), Some("beta.1"), None),
        ("2.1.14-jito", (2, 1, 14), Some("jito"), Some(Client::Jito)),
        (
            "2.1.14 (src:00000000; feat:3271415109, client:Agave)",
            (2, 1, 14),
            None,
            Some(Client::Agave),
        ),
        (
            "agave-validator 2.1.14 (src:1; feat:2, client:JitoLabs)",
            (2, 1, 14),
            None,
            Some(Client::Jito),
        ),
        ("2.1.14.5", (2, 1, 14), Some("5"), None),
        (
            "0.503.20214",
            (0, 503, 20214),
            None,
            Some(Client::Frankendancer),
        ),
        (
            "3.0.1 (client:Unknown(9))",
            (3, 0, 1),
            None,
            Some(Client::Other("Unknown(9".into())),
        ),
    ] {
        let found = version(text);
        assert_eq!(
            (found.number, found.suffix.as_deref(), found.client),
            (number, suffix, client),
            "{text}"
        );
    }
}

#[test]
fn what_is_no_version_is_refused() {
    for text in [
        "",
        "agave",
        "2.1",
        "2.1.x",
        "a.b.c",
        "2.1.14x",
        "+2.1.1",
        "4294967296.0.0",
        "(2.1.14)",
    ] {
        assert!(
            matches!(Version::parse(text), Err(Error::Version { .. })),
            "{text}"
        );
    }
}

#[test]
fn the_program_cache_grows_at_its_boundaries() {
    for (text, capacity, target) in [
        ("1.18.26", 256, 230),
        ("2.0.15", 256, 230),
        ("2.0.16", 512, 460),
        ("2.1.0", 256, 230),
        ("2.1.1", 512, 460),
        ("2.2.0", 512, 460),
        ("4.2.9", 512, 460),
        ("4.3.0", 1024, 921),
        ("4.4.0", 1024, 921),
        ("0.503.20100", 256, 230),
        ("0.503.20214", 512, 460),
    ] {
        let found = version(text);
        assert_eq!(
            (
                found.program_cache_capacity(),
                shrink_target(found.program_cache_capacity())
            ),
            (capacity, target),
            "{text}"
        );
    }
}

#[test]
fn a_shrink_target_of_any_capacity_is_ninety_percent_rounded_down() {
    assert_eq!(
        (shrink_target(1), shrink_target(11), shrink_target(u64::MAX)),
        (0, 9, 16_602_069_666_338_596_453)
    );
}
