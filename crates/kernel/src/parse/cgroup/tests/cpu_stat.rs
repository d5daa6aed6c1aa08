use super::super::*;

#[test]
fn microseconds_of_v2_and_nanoseconds_of_v1_become_durations() {
    let v2 = CpuStat::parse(
        b"usage_usec 30\nuser_usec 20\nnr_periods 4\nnr_throttled 2\nthrottled_usec 1500\n",
    )
    .unwrap();
    assert_eq!(v2.throttled, Some(Duration::from_micros(1500)));
    assert_eq!(v2.usage, Some(Duration::from_micros(30)));
    let v1 = CpuStat::parse(b"nr_periods 4\nnr_throttled 2\nthrottled_time 1500\n").unwrap();
    assert_eq!(v1.throttled, Some(Duration::from_nanos(1500)));
}

#[test]
fn without_the_cpu_controller_throttling_is_unknown() {
    let stat = CpuStat::parse(
        b"usage_usec 30124526\nuser_usec 18761800\nsystem_usec 11362725\nnice_usec 0\n",
    )
    .unwrap();
    assert_eq!(stat.throttled, None);
}
