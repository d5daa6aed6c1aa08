use super::*;

fn at(seconds: u64) -> Stamp {
    Stamp {
        uptime: Duration::from_secs(seconds),
        unix: Duration::ZERO,
    }
}

fn send(senders: &mut Senders, id: &str, now: u64) -> SenderState {
    let sender = senders.find(id, None, at(now)).expect("room");
    sender.sums.lines.used += u64::from(sender.standing == SenderState::Pending);
    sender.standing
}

#[test]
fn points_wait_for_the_identity_and_are_then_taken_or_dropped() {
    let mut senders = Senders::default();
    senders.restart(None);
    assert_eq!(send(&mut senders, "ours", 1), SenderState::Pending);
    assert_eq!(send(&mut senders, "other", 1), SenderState::Pending);
    let settled = senders.carries("ours", at(1));
    assert_eq!(settled.ours.iter().map(|s| s.lines.used).sum::<u64>(), 1);
    assert_eq!(settled.foreign, 1);
    assert_eq!(send(&mut senders, "ours", 2), SenderState::Ours);
    assert_eq!(send(&mut senders, "other", 2), SenderState::Foreign);
}

#[test]
fn the_start_up_name_counts_if_it_falls_silent_when_the_identity_is_heard() {
    let mut senders = Senders::default();
    senders.restart(Some("hash".into()));
    assert_eq!(send(&mut senders, "hash", 1), SenderState::Pending);
    send(&mut senders, "ours", 11);
    assert_eq!(
        senders.carries("ours", at(12)).ours.len(),
        1,
        "the identity's own sums"
    );
    let settled = senders.carries("ours", at(26));
    assert_eq!(
        settled.ours.iter().map(|s| s.lines.used).sum::<u64>(),
        1,
        "the start-up name's"
    );
}

#[test]
fn the_start_up_name_of_another_validator_on_this_host_goes_on_and_is_foreign() {
    let mut senders = Senders::default();
    senders.restart(Some("hash".into()));
    for second in [1, 11, 21] {
        send(&mut senders, "hash", second);
        send(&mut senders, "ours", second + 4);
    }
    let settled = senders.carries("ours", at(30));
    assert_eq!((settled.ours.len(), settled.foreign), (1, 3));
    assert_eq!(send(&mut senders, "hash", 31), SenderState::Foreign);
}

#[test]
fn an_identity_set_at_run_time_joins_the_one_before() {
    let mut senders = Senders::default();
    senders.restart(None);
    senders.carries("first", at(1));
    assert_eq!(send(&mut senders, "second", 1), SenderState::Pending);
    // The validator has not been asked since.
    assert_eq!(senders.carries("first", at(2)).foreign, 0);
    assert_eq!(
        senders
            .carries("second", at(12))
            .ours
            .iter()
            .map(|s| s.lines.used)
            .sum::<u64>(),
        1
    );
    assert_eq!(send(&mut senders, "second", 13), SenderState::Ours);
    assert_eq!(send(&mut senders, "first", 13), SenderState::Ours);
    senders.restart(None);
    assert_eq!(send(&mut senders, "first", 14), SenderState::Pending);
}

#[test]
fn somebody_who_comes_later_and_is_not_named_for_a_while_is_foreign() {
    let mut senders = Senders::default();
    senders.restart(None);
    senders.carries("ours", at(1));
    send(&mut senders, "late", 10);
    assert_eq!(senders.carries("ours", at(69)).foreign, 0);
    assert_eq!(senders.carries("ours", at(70)).foreign, 1);
    assert_eq!(send(&mut senders, "late", 71), SenderState::Foreign);
}

#[test]
fn a_name_that_the_validator_also_answers_to_counts_and_is_not_its_identity() {
    let mut senders = Senders::default();
    senders.restart(Some("hash".into()));
    senders.answers_to("hash", at(1));
    senders.carries("identity", at(1));
    senders.answers_to("hash", at(2));
    assert_eq!(senders.identity(), Some("identity"));
    assert_eq!(send(&mut senders, "hash", 3), SenderState::Ours);
    assert_eq!(send(&mut senders, "other", 3), SenderState::Pending);
}

#[test]
fn a_sole_sender_is_assumed_only_after_a_while_and_only_alone() {
    let mut senders = Senders::default();
    senders.restart(None);
    send(&mut senders, "sole", 1);
    assert!(senders.assume(at(30)).is_none());
    assert_eq!(
        senders
            .assume(at(70))
            .map(|(id, settled)| (id, settled.ours.len())),
        Some(("sole".to_owned(), 1))
    );
    assert_eq!(senders.assumed(), Some("sole"));
    let mut crowd = Senders::default();
    crowd.restart(None);
    send(&mut crowd, "one", 1);
    send(&mut crowd, "two", 1);
    assert!(crowd.assume(at(500)).is_none());
}

#[test]
fn what_can_be_no_identity_is_one_foreign_sender_without_a_name() {
    let mut senders = Senders::default();
    senders.restart(None);
    let long = "a".repeat(45);
    for id in ["", &long, "a b", "\u{7}", "\u{202e}abc", "<b>", "\u{fc}"] {
        assert_eq!(send(&mut senders, id, 1), SenderState::Foreign, "{id}");
    }
    assert_eq!(
        senders
            .of_standing(SenderState::Foreign, at(2), SILENT)
            .collect::<Vec<_>>(),
        [""]
    );
}

#[test]
fn strangers_cannot_fill_memory() {
    let mut senders = Senders::default();
    senders.restart(None);
    senders.carries("ours", at(1));
    for i in 0..1000 {
        let _ = senders.find(&format!("stranger{i}"), None, at(i));
        senders.carries("ours", at(1));
    }
    assert!(senders.all.len() <= MOST_SENDERS);
    assert_eq!(send(&mut senders, "ours", 2000), SenderState::Ours);
}
