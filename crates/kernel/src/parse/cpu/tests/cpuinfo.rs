use super::super::*;

#[test]
fn two_sockets_of_two_cores_with_two_threads_each_are_eight_processors() {
    let one = |n: u32| {
        format!(
            "processor\t: {n}\nmodel name\t: AMD EPYC 7R13 Processor\ncpu MHz\t\t: 2649.998\nphysical id\t: {}\ncore id\t\t: {}\n\n",
            n / 4,
            n % 2
        )
    };
    let text: String = (0..8).map(one).collect();
    let cpus = CpuTopology::parse(text.as_bytes()).unwrap();
    assert_eq!(
        (cpus.sockets, cpus.cores, cpus.threads),
        (Some(2), Some(4), 8)
    );
    assert_eq!(cpus.model.as_deref(), Some("AMD EPYC 7R13 Processor"));
}

#[test]
fn missing_cpuinfo_fields_on_other_architectures_are_unknown() {
    let cpus = CpuTopology::parse(
        b"processor\t: 0\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd\n\nprocessor\t: 1\n",
    )
    .unwrap();
    assert_eq!(
        cpus,
        CpuTopology {
            threads: 2,
            ..CpuTopology::default()
        }
    );
    assert!(CpuTopology::parse(b"model name : none\n").is_err());
}
