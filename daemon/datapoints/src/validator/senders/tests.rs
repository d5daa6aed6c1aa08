use super::*;

fn at(seconds: u64) -> Stamp {
    Stamp {
        uptime: Duration::from_secs(seconds),
        unix: Duration::ZERO,
    }
}

fn send(senders: &mut Senders, id: &str, now: u64) -> SenderState {
    let sender = senders
        .find_or_create(id, None, at(now))
        .expect("fewer senders than the limit");
    sender.sums.line_counts.used += u64::from(sender.state == SenderState::Pending);
    sender.state
}

#[test]
fn points_are_pending_until_the_identity_is_known() {
    let mut senders = Senders::default();
    senders.forget_identity(None);
    assert_eq!(send(&mut senders, "ours", 1), SenderState::Pending);
    assert_eq!(send(&mut senders, "other", 1), SenderState::Pending);
    let outcome = senders.set_reported_identity("ours", at(1));
    assert_eq!(
        outcome
            .merge_sums
            .iter()
            .map(|(_, sums)| sums.line_counts.used)
            .sum::<u64>(),
        1
    );
    assert_eq!(outcome.foreign_lines, 1);
    assert_eq!(send(&mut senders, "ours", 2), SenderState::Ours);
    assert_eq!(send(&mut senders, "other", 2), SenderState::Foreign);
}

#[test]
fn the_startup_host_id_is_accepted_if_silent_once_identity_appears() {
    let mut senders = Senders::default();
    senders.forget_identity(Some("hash".into()));
    assert_eq!(send(&mut senders, "hash", 1), SenderState::Pending);
    send(&mut senders, "ours", 11);
    assert_eq!(
        senders
            .set_reported_identity("ours", at(12))
            .merge_sums
            .len(),
        1,
        "the sums of the identity"
    );
    let outcome = senders.set_reported_identity("ours", at(26));
    assert_eq!(
        outcome
            .merge_sums
            .iter()
            .map(|(_, sums)| sums.line_counts.used)
            .sum::<u64>(),
        1,
        "the sums of the start-up id"
    );
}

#[test]
fn a_startup_host_id_that_keeps_sending_is_foreign() {
    let mut senders = Senders::default();
    senders.forget_identity(Some("hash".into()));
    for second in [1, 11, 21] {
        send(&mut senders, "hash", second);
        send(&mut senders, "ours", second + 4);
    }
    let outcome = senders.set_reported_identity("ours", at(30));
    assert_eq!((outcome.merge_sums.len(), outcome.foreign_lines), (1, 3));
    assert_eq!(send(&mut senders, "hash", 31), SenderState::Foreign);
}

#[test]
fn an_identity_set_at_run_time_is_accepted_next_to_the_previous() {
    let mut senders = Senders::default();
    senders.forget_identity(None);
    senders.set_reported_identity("first", at(1));
    assert_eq!(send(&mut senders, "second", 1), SenderState::Pending);
    // An older report of the identity.
    assert_eq!(
        senders.set_reported_identity("first", at(2)).foreign_lines,
        0
    );
    assert_eq!(
        senders
            .set_reported_identity("second", at(12))
            .merge_sums
            .iter()
            .map(|(_, sums)| sums.line_counts.used)
            .sum::<u64>(),
        1
    );
    assert_eq!(send(&mut senders, "second", 13), SenderState::Ours);
    assert_eq!(send(&mut senders, "first", 13), SenderState::Ours);
    senders.forget_identity(None);
    assert_eq!(send(&mut senders, "first", 14), SenderState::Pending);
}

#[test]
fn a_later_sender_without_confirmation_becomes_foreign() {
    let mut senders = Senders::default();
    senders.forget_identity(None);
    senders.set_reported_identity("ours", at(1));
    send(&mut senders, "late", 10);
    assert_eq!(
        senders.set_reported_identity("ours", at(69)).foreign_lines,
        0
    );
    assert_eq!(
        senders.set_reported_identity("ours", at(70)).foreign_lines,
        1
    );
    assert_eq!(send(&mut senders, "late", 71), SenderState::Foreign);
}

#[test]
fn an_alias_sender_counts_without_becoming_the_identity() {
    let mut senders = Senders::default();
    senders.forget_identity(Some("hash".into()));
    senders.add_host_id("hash", at(1));
    assert_eq!(senders.identity(), None);
    assert_eq!(send(&mut senders, "other", 2), SenderState::Pending);
    assert_eq!(send(&mut senders, "hash", 2), SenderState::Ours);
    assert_eq!(senders.assume_identity(at(100)).0, None);
    senders.set_reported_identity("identity", at(100));
    assert_eq!(senders.identity(), Some("identity"));
    assert_eq!(send(&mut senders, "hash", 101), SenderState::Ours);
    assert_eq!(send(&mut senders, "other", 101), SenderState::Foreign);
}

#[test]
fn a_sole_sender_is_assumed_ours_only_after_a_delay() {
    let mut senders = Senders::default();
    senders.forget_identity(None);
    send(&mut senders, "sole", 1);
    assert_eq!(senders.assume_identity(at(30)).0, None);
    let (assumption, outcome) = senders.assume_identity(at(70));
    assert_eq!(assumption, Some(Assumption::Sole("sole".to_owned())));
    assert_eq!(outcome.merge_sums.len(), 1);
    assert_eq!(senders.assumed_identity(), Some("sole"));
    let mut two_senders = Senders::default();
    two_senders.forget_identity(None);
    send(&mut two_senders, "one", 1);
    send(&mut two_senders, "two", 1);
    assert_eq!(two_senders.assume_identity(at(500)).0, None);
}

/// Senders after 70 s. `id` is assumed to be the validator.
fn assumed(id: &str) -> Senders {
    let mut senders = Senders::default();
    senders.forget_identity(None);
    for second in (0..=70).step_by(10) {
        send(&mut senders, id, second);
    }
    assert!(senders.assume_identity(at(70)).0.is_some());
    senders
}

/// Pushes of these senders every 10 s. Returns the second of a new assumption, and how many lines it
/// adds.
fn push_until_assumption(
    senders: &mut Senders,
    ids: &[&str],
    seconds: std::ops::RangeInclusive<u64>,
) -> Option<(u64, Assumption, u64)> {
    for second in seconds.step_by(10) {
        for id in ids {
            send(senders, id, second);
        }
        let (assumption, outcome) = senders.assume_identity(at(second));
        if let Some(assumption) = assumption {
            let lines = outcome
                .merge_sums
                .iter()
                .map(|(_, sums)| sums.line_counts.used)
                .sum();
            return Some((second, assumption, lines));
        }
    }
    None
}

fn revised(from: &str, to: &str) -> Assumption {
    let (from, to) = (from.to_owned(), to.to_owned());
    Assumption::Changed { from, to }
}

#[test]
fn a_sole_successor_of_a_silent_assumed_sender_replaces_it() {
    let mut senders = assumed("first");
    let found = push_until_assumption(&mut senders, &["second"], 80..=300);
    assert_eq!(found, Some((140, revised("first", "second"), 7)));
    assert_eq!(senders.assumed_identity(), Some("second"));
    assert_eq!(send(&mut senders, "second", 141), SenderState::Ours);
    // The identity changes back.
    let found = push_until_assumption(&mut senders, &["first"], 150..=400);
    assert_eq!(found, Some((210, revised("second", "first"), 0)));
}

#[test]
fn a_sender_concurrent_with_the_assumed_one_is_foreign() {
    let mut senders = assumed("first");
    assert_eq!(
        push_until_assumption(&mut senders, &["first", "parallel"], 80..=130),
        None
    );
    assert_eq!(senders.pending_lines(), 6);
    send(&mut senders, "first", 140);
    assert_eq!(senders.assume_identity(at(140)).1.foreign_lines, 6);
    assert_eq!(senders.pending_lines(), 0);
    assert_eq!(
        push_until_assumption(&mut senders, &["parallel"], 150..=500),
        None
    );
    let found = push_until_assumption(&mut senders, &["parallel", "second"], 510..=900);
    assert_eq!(
        found.map(|(_, assumption, _)| assumption),
        Some(revised("first", "second"))
    );
}

#[test]
fn with_two_possible_successor_identities_none_is_assumed() {
    let mut senders = assumed("first");
    assert_eq!(
        push_until_assumption(&mut senders, &["second", "third"], 80..=400),
        None
    );
    assert_eq!(senders.identity(), Some("first"));
    let found = push_until_assumption(&mut senders, &["third"], 410..=600);
    assert_eq!(
        found.map(|(_, assumption, _)| assumption),
        Some(revised("first", "third"))
    );
}

#[test]
fn an_announced_identity_following_the_assumed_one_is_accepted_immediately() {
    let set = |old: Option<&str>, new: &str| {
        let mut set = SetIdentity::default();
        (set.old_id, set.new_id) = (old.map(str::to_owned), Some(new.to_owned()));
        set
    };
    let mut senders = assumed("first");
    send(&mut senders, "second", 80);
    senders.announce_change("second", &set(Some("first"), "second"));
    let (assumption, outcome) = senders.assume_identity(at(81));
    assert_eq!(assumption, Some(revised("first", "second")));
    assert_eq!(outcome.merge_sums.len(), 1);
    // The change is that of another validator, or to another identity.
    for (id, set) in [
        ("second", set(Some("x"), "second")),
        ("second", set(Some("first"), "y")),
    ] {
        let mut senders = assumed("first");
        send(&mut senders, "second", 80);
        senders.announce_change(id, &set);
        assert_eq!(senders.assume_identity(at(81)).0, None);
    }
    // Before 4.2, the report lacks the old identity. Then the old identity must be silent.
    let mut senders = assumed("first");
    send(&mut senders, "second", 80);
    senders.announce_change("second", &set(None, "second"));
    assert_eq!(senders.assume_identity(at(84)).0, None);
    assert_eq!(
        senders.assume_identity(at(85)).0,
        Some(revised("first", "second"))
    );
    // An identity that the validator reports needs no assumption.
    let mut senders = Senders::default();
    senders.forget_identity(None);
    senders.set_reported_identity("first", at(1));
    send(&mut senders, "second", 2);
    senders.announce_change("second", &set(Some("first"), "second"));
    assert_eq!(senders.assume_identity(at(90)).0, None);
}

#[test]
fn invalid_host_ids_count_as_one_unnamed_foreign_sender() {
    let mut senders = Senders::default();
    senders.forget_identity(None);
    let long = "a".repeat(45);
    for id in ["", &long, "a b", "\u{7}", "\u{202e}abc", "<b>", "\u{fc}"] {
        assert_eq!(send(&mut senders, id, 1), SenderState::Foreign, "{id}");
    }
    assert_eq!(
        senders
            .ids_in_state(SenderState::Foreign, at(2), STOPPED_AFTER)
            .collect::<Vec<_>>(),
        [""]
    );
}

#[test]
fn unknown_senders_use_bounded_memory() {
    let mut senders = Senders::default();
    senders.forget_identity(None);
    senders.set_reported_identity("ours", at(1));
    for i in 0..1000 {
        let _ = senders.find_or_create(&format!("stranger{i}"), None, at(i));
        senders.set_reported_identity("ours", at(1));
    }
    assert!(senders.senders.len() <= MAX_SENDERS);
    assert_eq!(send(&mut senders, "ours", 2000), SenderState::Ours);
}
