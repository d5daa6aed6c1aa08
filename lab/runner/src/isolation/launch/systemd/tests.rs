use super::{
    super::{CpuSet, End},
    *,
};
use std::{ffi::OsString, os::unix::ffi::OsStringExt, time::Duration};

fn job() -> Job {
    Job {
        name: CgroupName {
            experiment: "s".into(),
            run: "r001_a1".into(),
            role: "validator".into(),
        },
        command: vec!["true".into(), "$HOME %n".into()],
        environment: vec![("PATH".into(), "/bin".into())],
        user: Some("sol".into()),
        folder: None,
        output: "/run/output".into(),
        limits: Limits::default(),
        open_files: Some(1_000_000),
        exec_gate: None,
        max_duration: Some(Duration::from_secs(60)),
        grace: Duration::from_secs(600),
    }
}

fn value<T: for<'v> TryFrom<&'v Variant<'static>>>(
    properties: &Properties,
    name: &str,
) -> Option<T> {
    let (_, value) = properties.iter().find(|(one, _)| *one == name)?;
    T::try_from(value).ok()
}

#[test]
fn a_slice_has_the_limits_that_are_set_and_no_others() {
    let limits = Limits {
        memory_max: Some(64 << 20),
        swap_max: Some(0),
        cpus: Some(CpuSet::parse("0,9").unwrap()),
        ..Limits::default()
    };
    let properties = slice_properties("a run".to_owned(), &limits).unwrap();
    assert_eq!(value::<u64>(&properties, "MemoryMax"), Some(64 << 20));
    assert_eq!(value::<u64>(&properties, "MemorySwapMax"), Some(0));
    assert!(
        !properties
            .iter()
            .any(|(name, _)| *name == "MemoryHigh" || name.starts_with("IORead"))
    );
    assert_eq!(mask(limits.cpus.unwrap().numbers()), [1, 2]);
}

#[test]
fn a_systemd_service_has_the_properties_of_its_job() {
    let properties = service_properties(
        &job(),
        "a.slice",
        Path::new("/bin/true"),
        &["LC_ALL=C".to_owned()],
        true,
    )
    .unwrap();
    assert_eq!(
        value::<String>(&properties, "Slice").as_deref(),
        Some("a.slice")
    );
    assert_eq!(value::<String>(&properties, "User").as_deref(), Some("sol"));
    assert_eq!(
        value::<String>(&properties, "WorkingDirectory").as_deref(),
        Some("/")
    );
    assert_eq!(
        value::<u64>(&properties, "LimitNOFILESoft"),
        Some(1_000_000)
    );
    assert_eq!(
        value::<u64>(&properties, "RuntimeMaxUSec"),
        Some(60_000_000)
    );
    assert!(
        value::<u64>(&properties, "TimeoutStopUSec").is_some_and(|stop| stop > 600_000_000),
        "force is the caller's"
    );
    assert_eq!(
        value::<String>(&properties, "ExitType").as_deref(),
        Some("cgroup")
    );
}

#[test]
fn exit_type_is_omitted_for_an_older_systemd() {
    let properties =
        service_properties(&job(), "a.slice", Path::new("/bin/true"), &[], false).unwrap();
    assert!(!properties.iter().any(|(name, _)| *name == "ExitType"));
}

#[test]
fn only_given_variables_remain_in_the_environment() {
    let [(_, given), (_, unset)] = environment(&job(), &["LC_ALL=C".to_owned()])
        .unwrap()
        .try_into()
        .unwrap();
    assert_eq!(given.downcast::<Vec<String>>().unwrap(), ["PATH=/bin"]);
    let unset = unset.downcast::<Vec<String>>().unwrap();
    assert!(
        unset.contains(&"LC_ALL".to_owned()) && unset.contains(&"HOME".to_owned()),
        "{unset:?}"
    );
    assert!(!unset.contains(&"PATH".to_owned()));
}

#[test]
fn a_non_utf8_value_is_refused_with_a_message() {
    let mut job = job();
    job.command.push(OsString::from_vec(vec![0xff]));
    let error = service_properties(&job, "a.slice", Path::new("/bin/true"), &[], true)
        .unwrap_err()
        .to_string();
    assert!(error.contains("UTF-8"), "{error}");
}

#[test]
fn the_error_of_a_program_without_its_limits_names_both_limits() {
    let error = service::not_started_error(&job(), Some(End::Code(205)), "exit-code");
    assert_eq!(
        error.to_string(),
        "true cannot be started: systemd cannot set its limits of open files and locked memory"
    );
}
