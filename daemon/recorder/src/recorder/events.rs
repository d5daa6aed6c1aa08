//! Derives events from successive ticks.

use super::{CurrentTarget, FollowedProcess, RecordingEntry};
use crate::manifest::ProcessManifest;
use faultline_metrics::{
    LabelText, Reading, Stamp, Tick,
    metrics::{daemon as d, process as p, validator as v},
};
use faultline_recording::{Event, EventKind};
use faultline_sources::discovery::{EndReason, Target};
use serde_json::{Value, json};
use std::{mem, sync::Arc, time::Duration};

#[derive(Default)]
pub struct EventDetector {
    last_tick: Option<(u64, Stamp)>,
    pub target: Option<Arc<Target>>,
    phase: Option<LabelText>,
    last_known_phase: Option<LabelText>,
    was_stalled: bool,
    /// The last reported processed slot, because a stopped process reports none.
    last_slot: Option<f64>,
    restart_counts: [f64; 3],
    clock_steps: f64,
}

pub type DescribeProcess = Box<dyn Fn(&Target) -> Value + Send>;

impl EventDetector {
    /// Appends the tick's events, then the tick itself. So the end of a process precedes the first
    /// tick without it, and a start precedes the first tick with it.
    pub fn add_tick(
        &mut self,
        tick: &Arc<Tick>,
        current: &CurrentTarget,
        describe: &DescribeProcess,
        out: &mut Vec<RecordingEntry>,
    ) {
        self.add_time_events(tick, out);
        if is_other_process_or_program(self.target.as_deref(), current.target.as_deref()) {
            if let (Some(before), Some(target)) = (&self.target, &current.target)
                && before.process == target.process
            {
                // An exec in place: the same process with a new manifest.
                let manifest = describe(target);
                out.push(RecordingEntry::Manifest(Arc::new(ProcessManifest {
                    target: Arc::clone(target),
                    manifest,
                })));
                self.target = Some(Arc::clone(target));
            } else {
                self.add_process_change(tick, current, describe, out);
            }
        }
        self.add_restarts(tick, out);
        self.add_phase_events(tick, out);
        self.add_stall(tick, out);
        out.push(RecordingEntry::Tick(Arc::clone(tick)));
    }

    fn add_time_events(&mut self, tick: &Tick, out: &mut Vec<RecordingEntry>) {
        let steps = tick
            .value_of(&d::CLOCK_STEPS, &[])
            .unwrap_or(self.clock_steps);
        let has_stepped = steps > mem::replace(&mut self.clock_steps, steps);
        let Some((number, at)) = self.last_tick.replace((tick.number, tick.at)) else {
            return;
        };
        let seconds = tick.at.since(at).as_secs_f64();
        if tick.number > number + 1 {
            let ticks = tick.number - number - 1;
            let detail = json!({ "why": "ticks were missed", "ticks": ticks, "seconds": seconds });
            out.push(RecordingEntry::event(tick.at, EventKind::Gap, detail));
        }
        if has_stepped {
            let step = tick.at.unix_seconds() - at.unix_seconds() - seconds;
            let detail = json!({ "seconds": (step * 1e3).round() / 1e3 });
            out.push(RecordingEntry::event(tick.at, EventKind::ClockStep, detail));
        }
    }

    fn add_process_change(
        &mut self,
        tick: &Tick,
        current: &CurrentTarget,
        describe: &DescribeProcess,
        out: &mut Vec<RecordingEntry>,
    ) {
        let target = current.target.as_ref();
        if let Some(before) = &self.target {
            let replaces_wrapper = current.end_reason.is_none()
                && target.is_some_and(|target| target.replaces_wrapper(before));
            if !replaces_wrapper {
                let reason = current.end_reason.unwrap_or(EndReason::Unknown);
                let kind = match reason {
                    EndReason::OomKill => EventKind::OomKill,
                    _ => EventKind::Exit,
                };
                let detail = json!({
                    "pid": before.process.pid,
                    "comm": before.comm,
                    "reason": reason.name()
                });
                out.push(RecordingEntry::event(tick.at, kind, detail));
            }
        }
        (self.target, self.last_slot) = (target.cloned(), None);
        out.push(RecordingEntry::ProcessChange(target.map(|target| {
            let started = tick.value_of(&p::START_TIME, &[]);
            Arc::new(FollowedProcess {
                target: Arc::clone(target),
                started_unix: started.and_then(|s| Duration::try_from_secs_f64(s).ok()),
                first_seen: tick.at,
                manifest: describe(target),
            })
        })));
        if let Some(target) = target {
            let detail = json!({
                "pid": target.process.pid,
                "comm": target.comm,
                "found_by": target.found_by
            });
            out.push(RecordingEntry::event(tick.at, EventKind::Start, detail));
        }
    }

    fn add_restarts(&mut self, tick: &Tick, out: &mut Vec<RecordingEntry>) {
        for (reason, before) in EndReason::ALL.into_iter().zip(&mut self.restart_counts) {
            let count = tick.value_of(&p::RESTARTS, &[reason.name()]).unwrap_or(0.0);
            if count > mem::replace(before, count) {
                out.push(RecordingEntry::event(
                    tick.at,
                    EventKind::Restart,
                    json!({ "reason": reason.name() }),
                ));
            }
        }
    }

    fn add_stall(&mut self, tick: &Tick, out: &mut Vec<RecordingEntry>) {
        let is_stalled = tick.value_of(&v::STALLED, &[]) == Some(1.0);
        self.last_slot = tick.value_of(&v::SLOT, &["processed"]).or(self.last_slot);
        if is_stalled && !self.was_stalled {
            out.push(RecordingEntry::event(
                tick.at,
                EventKind::Stall,
                json!({ "slot": self.last_slot }),
            ));
        }
        self.was_stalled = is_stalled;
    }

    /// Adds phase events. A phase that becomes unknown and then known again does not count as
    /// reached again.
    fn add_phase_events(&mut self, tick: &Tick, out: &mut Vec<RecordingEntry>) {
        let phase = phase_of(tick);
        if self.phase.as_ref() == phase {
            return;
        }
        let before = mem::replace(&mut self.phase, phase.cloned());
        let detail = json!({
            "from": before.as_ref().map(LabelText::as_str),
            "to": phase.map(LabelText::as_str)
        });
        out.push(RecordingEntry::event(tick.at, EventKind::Phase, detail));
        let Some(phase) = phase else { return };
        if self.last_known_phase.replace(phase.clone()).as_ref() == Some(phase) {
            return;
        }
        let reached = match phase.as_str() {
            "at_tip" => EventKind::AtTip,
            "behind" => EventKind::Behind,
            _ => return,
        };
        let slots = tick.value_of(&v::SLOTS_BEHIND, &[]);
        out.push(RecordingEntry::event(
            tick.at,
            reached,
            json!({ "slots_behind": slots }),
        ));
    }
}

/// True for another process or after an exec. Ignores how the process was found, and a replacement
/// of its file on disk.
fn is_other_process_or_program(before: Option<&Target>, current: Option<&Target>) -> bool {
    let program = |target: &Target| {
        let exe = target.exe.as_ref()?.to_string_lossy();
        Some(exe.trim_end_matches(" (deleted)").to_owned())
    };
    let process_and_program =
        |target: &Target| (target.process, target.comm.clone(), program(target));
    before.map(process_and_program) != current.map(process_and_program)
}

fn phase_of(tick: &Tick) -> Option<&LabelText> {
    let is_active = |reading: &&Reading| {
        reading.metric.name == v::PHASE.name && reading.value.number() == Some(1.0)
    };
    tick.readings()
        .find(is_active)
        .and_then(|reading| reading.label_values.first())
}

impl RecordingEntry {
    pub fn event(at: Stamp, kind: EventKind, detail: Value) -> Self {
        Self::Event(Event {
            at,
            kind,
            detail: detail.to_string(),
        })
    }
}

#[cfg(test)]
mod tests;
