mod cgroup_file;
pub mod files;
pub mod levels;
pub mod locate;
pub mod settings;
