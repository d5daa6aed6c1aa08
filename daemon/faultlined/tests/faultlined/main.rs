//! Tests of the real daemon, and of its sources with fake hosts. They are one program, so that
//! tests that wait run at the same time. A test that needs the whole machine is a separate program.

mod activation;
mod alpenglow;
mod answers;
mod audit;
mod counter_model;
mod demo;
mod documents;
mod falls_behind;
mod flight;
mod frozen;
mod golden;
mod headroom;
mod hostile_answers;
mod ledger_paths;
mod lifecycle;
mod live_migration;
mod migration_alerts;
mod native_histograms;
mod once;
mod pages;
mod pool_cpu;
mod prometheus_restart;
mod ready_file;
mod real_process;
mod recording;
mod runs_out;
mod secrets;
mod series;
mod source_contract;
mod support;
mod units;
mod users;
