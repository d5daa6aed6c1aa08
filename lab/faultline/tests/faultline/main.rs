//! The program as its users run it, and what it writes. One program, so that tests which wait do so beside others; what needs
//! the machine for itself is a program of its own.

mod browser;
mod cache;
mod campaign;
mod connect;
mod doctor;
mod documents;
mod experiment;
mod experiment_concurrent;
mod experiment_order;
mod experiment_plan;
mod experiment_report;
mod experiment_scraped;
mod experiment_search;
mod experiment_truth;
mod experiments_doc;
mod export;
mod hold;
mod info;
mod merge;
mod migration;
mod record;
mod render;
mod report;
mod shell_blocks;
mod support;
mod top;
mod try_command;
