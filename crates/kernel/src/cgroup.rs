mod cgroup_file;
pub mod files;
/// Memory limits of a cgroup and its ancestors.
pub mod levels;
pub mod locate;
pub mod settings;
