use super::{
    CONSENSUS, IDENTITY,
    recording::{Recording, Track},
    timeline,
};
use faultline_metrics::Stamp;
use std::{sync::Arc, time::Duration};

#[derive(Debug)]
pub struct Replay {
    recording: Arc<Recording>,
    pushed: Duration,
}

impl Replay {
    /// Continues from an uptime.
    pub fn new(recording: Arc<Recording>, pushed: Duration) -> Self {
        Replay { recording, pushed }
    }

    /// The lines since the last push in time order. The point of the metrics agent is last.
    pub fn push(&mut self, now: Stamp) -> String {
        let before = std::mem::replace(&mut self.pushed, now.uptime);
        let mut lines = Vec::new();
        if before < timeline::RUNNING && now.uptime >= timeline::RUNNING {
            lines.push((timeline::RUNNING, validator_new_line()));
        }
        type Position = fn(Duration) -> Duration;
        let tracks: [(Track, Position, Position); 2] = [
            (
                Track::Validator,
                timeline::replayed,
                timeline::uptime_at_replay,
            ),
            (Track::Cluster, timeline::tip, timeline::uptime_at_tip),
        ];
        for (track, position, uptime_at) in tracks {
            let played = self
                .recording
                .between(track, position(before), position(now.uptime));
            lines.extend(
                played
                    .into_iter()
                    .map(|(position, line)| (uptime_at(position), line)),
            );
        }
        lines.sort_by_key(|(uptime, _)| *uptime);
        let count = lines.len() + 1;
        let since = (now.uptime - before).as_secs();
        lines.push((
            now.uptime,
            format!(
                "metrics,host_id={IDENTITY} points_written={count}i,num_points={count}i,points_lost=0i,\
                 points_buffered=0i,secs_since_last_write={since}i"
            ),
        ));
        let mut body = String::new();
        for (uptime, line) in lines {
            let time = now
                .unix
                .saturating_sub(now.uptime.saturating_sub(uptime))
                .as_nanos();
            body.push_str(&format!("{line} {time}\n"));
        }
        body
    }
}

fn validator_new_line() -> String {
    let (elapsed, version) = (timeline::RUNNING.as_millis(), CONSENSUS.version());
    format!(
        "validator-new,host_id={IDENTITY} id=\"{IDENTITY}\",version=\"{version} (faultline demo)\",cluster_type=3i,\
         elapsed_ms={elapsed}i,waited_for_supermajority=false,shred_version=1i"
    )
}

#[cfg(test)]
mod tests;
