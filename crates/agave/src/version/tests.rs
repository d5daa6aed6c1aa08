use super::*;

fn version(text: &str) -> Version {
    Version::parse(text).unwrap()
}

#[test]
fn versions_are_parsed_in_validator_formats() {
    for (text, number, suffix, client) in [
        ("2.1.14", (2, 1, 14), None, None),
        ("v3.0.0-beta.1", (3, 0, 0), Some("beta.1"), None),
        (
            "2.1.14-jito",
            (2, 1, 14),
            Some("jito"),
            Some(ValidatorClient::Jito),
        ),
        (
            "2.1.14 (src:00000000; feat:3271415109, client:Agave)",
            (2, 1, 14),
            None,
            Some(ValidatorClient::Agave),
        ),
        (
            "agave-validator 2.1.14 (src:1; feat:2, client:JitoLabs)",
            (2, 1, 14),
            None,
            Some(ValidatorClient::Jito),
        ),
        ("2.1.14.5", (2, 1, 14), Some("5"), None),
        (
            "0.503.20214",
            (0, 503, 20214),
            None,
            Some(ValidatorClient::Frankendancer),
        ),
        (
            "0.101.0-beta.40002",
            (0, 101, 0),
            Some("beta.40002"),
            Some(ValidatorClient::Frankendancer),
        ),
        (
            "3.0.1 (client:Unknown(9))",
            (3, 0, 1),
            None,
            Some(ValidatorClient::Other("Unknown(9".into())),
        ),
    ] {
        let found = version(text);
        assert_eq!(
            (found.shown_number, found.suffix.as_deref(), found.client),
            (number, suffix, client),
            "{text}"
        );
    }
}

#[test]
fn an_invalid_version_is_refused() {
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
fn the_program_cache_size_changes_at_its_version_boundaries() {
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
        ("0.808.40200", 512, 460),
        ("0.101.0-beta.40002", 512, 460),
        ("0.32869.40002", 512, 460),
        ("4.3.0-beta.1", 1024, 921),
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

#[test]
fn releases_are_ordered_by_age_also_when_embedded() {
    let oldest_first = [
        vec!["2.1.14", "2.1.14-jito", "0.501.20114"],
        vec!["4.0.0-alpha.9"],
        vec![
            "4.0.0-beta.2",
            "0.101.0-beta.40002",
            "0.32869.40002",
            "4.32768.2",
        ],
        vec!["4.0.0-beta.10", "4.0.0-beta.10-jito"],
        vec![
            "4.0.0-rc.1",
            "4.0.0-rc1",
            "4.0.0-jito-rc.1",
            "0.103.0-rc.40001",
        ],
        vec!["4.0.0", "v4.0.0", "0.903.40000"],
        vec![
            "4.0.2",
            "0.903.40002",
            "4.0.2 (src:1; feat:2, client:HarmonicAgave)",
        ],
        vec!["4.2.0", "0.808.40200"],
        vec!["4.5.0-alpha.4", "4.49157.4"],
        vec!["4.5.0", "4.5.0-alphabet", "4.5.0-rcx"],
    ];
    let releases = |texts: &[&str]| {
        texts
            .iter()
            .map(|text| version(text).release())
            .collect::<Vec<_>>()
    };
    for pair in oldest_first.windows(2) {
        for (older, newer) in releases(&pair[0]).into_iter().flat_map(|older| {
            releases(&pair[1])
                .into_iter()
                .map(move |newer| (older, newer))
        }) {
            assert!(older < newer, "{older:?} {newer:?}");
        }
    }
    for equal in &oldest_first {
        let found = releases(equal);
        assert!(
            found.iter().all(|one| *one == found[0]),
            "{equal:?}: {found:?}"
        );
    }
}

proptest::proptest! {
    #[test]
    fn a_prerelease_shown_by_an_older_node_parses_equal(major in 1_u32..100, minor in 0_u32..100, n in 0_u32..1_000) {
        for (tag, name) in [(1, "rc"), (2, "beta"), (3, "alpha")] {
            let packed = version(&format!("{major}.{}.{n}", minor | tag << 14)).release();
            let shown = version(&format!("{major}.{minor}.0-{name}.{n}")).release();
            proptest::prop_assert_eq!(packed, shown);
        }
    }
}
