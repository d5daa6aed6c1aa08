use super::*;

/// Totals of a simulated cache with this capacity while these programs are called in turn.
fn cache(capacity: u64, programs: u64) -> ProgramCacheTotals {
    let target = capacity * 90 / 100;
    let mut points = Vec::new();
    let mut loaded: u64 = 0;
    for load in 0..4 * programs {
        // Each program is called again after all others. If they do not fit, it was evicted by then.
        if load >= programs && programs <= target {
            break;
        }
        loaded += 1;
        let evictions = loaded.saturating_sub(target);
        points.push(ProgramCachePoint {
            water_level: Some(loaded),
            evictions: Some(evictions),
            insertions: Some(u64::from(load < programs)),
            ..ProgramCachePoint::default()
        });
        loaded -= evictions;
    }
    ProgramCacheTotals::of(&points)
}

#[test]
fn a_cache_of_the_planned_capacity_is_valid_with_or_without_overflow() {
    for (entries, programs) in [
        (512, 640),
        (512, 100),
        (1024, 640),
        (1024, 2000),
        (20, 50),
        (256, 640),
    ] {
        assert_eq!(
            program_cache_validity(entries, &cache(u64::from(entries), programs)),
            Validity::Valid,
            "{entries} {programs}"
        );
    }
}

#[test]
fn a_stock_cache_size_invalidates_a_run_where_it_matters() {
    let is_invalid = |entries, programs| {
        matches!(
            program_cache_validity(entries, &cache(512, programs)),
            Validity::Invalid(_)
        )
    };
    // Too small, too large, and no difference: all entries fit into either.
    assert!(is_invalid(1024, 640));
    assert!(is_invalid(256, 640));
    assert!(!is_invalid(1024, 300) && !is_invalid(512, 640));
}

#[test]
fn unrecorded_cache_data_gives_no_validity() {
    let unproven = |cache_totals: ProgramCacheTotals| {
        matches!(
            program_cache_validity(512, &cache_totals),
            Validity::Unproven(_)
        )
    };
    assert!(unproven(ProgramCacheTotals::default()));
    assert!(unproven(ProgramCacheTotals {
        points: 5,
        insertions: 600,
        ..ProgramCacheTotals::default()
    }));
    assert!(unproven(ProgramCacheTotals {
        points: 5,
        insertions: 600,
        evictions: 1,
        ..ProgramCacheTotals::default()
    }));
    assert_eq!(
        program_cache_validity(
            512,
            &ProgramCacheTotals {
                points: 5,
                insertions: 9,
                ..ProgramCacheTotals::default()
            }
        ),
        Validity::Valid
    );
}
