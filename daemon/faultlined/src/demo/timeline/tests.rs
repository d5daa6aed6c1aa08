mod answers;
mod replay;

use super::*;
use proptest::prelude::*;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn the_demo_replays_nothing_before_services_run() {
    assert_eq!(replay_position(SERVICES_START), Duration::ZERO);
    assert_eq!(tip_position(Duration::ZERO), tip_position(SERVICES_START));
    assert_eq!(progress(SERVICES_START), "Running");
    assert_ne!(
        progress(SERVICES_START - Duration::from_millis(1)),
        "Running"
    );
}

#[test]
fn the_demo_is_at_tip_thirty_seconds_after_services_run() {
    assert!(
        replay_position(SERVICES_START + seconds(29)) < tip_position(SERVICES_START + seconds(29))
    );
    for second in [30, 31, 3600] {
        assert_eq!(
            replay_position(SERVICES_START + seconds(second)),
            tip_position(SERVICES_START + seconds(second))
        );
    }
}

#[test]
fn the_demo_pushes_often_until_at_tip_then_every_ten_seconds() {
    assert_eq!(next_push_uptime(seconds(1)), seconds(3));
    assert_eq!(
        next_push_uptime(SERVICES_START + CATCH_UP_TIME),
        SERVICES_START + CATCH_UP_TIME + seconds(10)
    );
}

proptest! {
    #[test]
    fn demo_positions_and_their_times_are_inverse_functions(nanos in 0_u64..1 << 50) {
        let uptime = SERVICES_START + Duration::from_nanos(nanos);
        prop_assert_eq!(uptime_at_tip_position(tip_position(uptime)), uptime);
        prop_assert_eq!(uptime_at_replay_position(replay_position(uptime)), uptime);
    }
}
