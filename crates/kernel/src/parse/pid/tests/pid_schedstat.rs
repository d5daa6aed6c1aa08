use super::super::*;

#[test]
fn the_second_schedstat_value_is_the_run_queue_delay() {
    let stat = PidSchedstat::parse(b"698906 1500 3\n").unwrap();
    assert_eq!(stat.on_cpu, Some(Duration::from_nanos(698_906)));
    assert_eq!(
        (stat.run_queue_delay, stat.timeslices),
        (Some(Duration::from_nanos(1500)), Some(3))
    );
    assert!(PidSchedstat::parse(b"698906 1500\n").is_err());
    let stat = PidSchedstat::parse(b"698906 -1500 3\n").unwrap();
    assert_eq!((stat.run_queue_delay, stat.timeslices), (None, Some(3)));
}
