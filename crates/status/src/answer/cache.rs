use super::{
    Answer, AnswerInputs, Subject, Verdict, measured_on, missing_evidence_text, too_early_text,
};
use crate::thresholds::RELOADS_PER_SLOT;
use faultline_text::{counted, ms, percent, short};

const HOW_TO_MEASURE: &str = "what another size saves is not predicted: a prediction needs the blocks of an hour, about 80 GB \
    (`faultline cache fetch RUN.fltl --rpc URL`)";

pub fn answer(inputs: &AnswerInputs) -> Answer {
    let Some(reloads) = inputs.reloads_per_slot else {
        return unknown_answer(inputs);
    };
    let is_too_small = reloads > RELOADS_PER_SLOT;
    let below_alert = format!("below the alert's {} per slot", short(RELOADS_PER_SLOT));
    // A finished run's prediction is of its own load.
    let prediction = inputs
        .prediction
        .as_ref()
        .filter(|_| inputs.is_finished_run);
    let is_improvable = prediction.is_some_and(|prediction| prediction.saved_seconds > 0.0);
    let (verdict, judgment) = match inputs.can_change_capacity {
        _ if is_improvable && !is_too_small => (Verdict::Look, below_alert.as_str()),
        _ if reloads == 0.0 => (Verdict::Fine, "large enough"),
        _ if !is_too_small => (Verdict::Fine, below_alert.as_str()),
        Some(true) => (Verdict::Act, "too small"),
        _ => (Verdict::Look, "too small"),
    };
    let per_slot = per_slot_clause(inputs, reloads);
    let why = too_early_text(verdict, inputs.seconds_to_enough_replay, "replayed slots");
    let (verdict, mut clauses) = match why {
        Some(why) => (Verdict::Unknown, vec![why, per_slot]),
        None => (verdict, vec![format!("{judgment}, {per_slot}")]),
    };
    let capacity = inputs.cache_capacity.map(short);
    let is_constant = (is_too_small || is_improvable) && inputs.can_change_capacity == Some(false);
    let constant_entries = capacity.filter(|_| is_constant);
    let constant_clause =
        constant_entries.map(|entries| format!("{entries} entries are a constant of this build"));
    clauses.push(prediction_clause(inputs));
    clauses.extend(constant_clause);
    Answer::new(Subject::ProgramCache, verdict, clauses)
}

fn unknown_answer(inputs: &AnswerInputs) -> Answer {
    let why = inputs.why_reloads_unknown.as_deref();
    let why = why.unwrap_or("no datapoints of replayed slots arrived");
    let mut clauses = vec![format!("the reloads are not known: {why}")];
    if inputs.prediction.is_some() {
        clauses.push(prediction_clause(inputs));
    }
    Answer::new(Subject::ProgramCache, Verdict::Unknown, clauses)
}

/// `24 reloads and 8.3 ms per slot (63 % of replay)`.
fn per_slot_clause(inputs: &AnswerInputs, reloads: f64) -> String {
    let reloads = counted(reloads, "reload");
    let Some(seconds) = inputs.cache_seconds_per_slot else {
        return format!("{reloads} per slot");
    };
    let replay = inputs.replay_seconds_per_slot;
    let share = replay.filter(|replay| *replay > 0.0);
    // The cache time is a sum over threads and can exceed the wall time of replay.
    let share = match share.map(|replay| seconds / replay) {
        Some(share) if share <= 1.0 => format!(" ({} of replay)", percent(share)),
        Some(_) => " (summed over threads, more than replay's wall time)".to_owned(),
        None => String::new(),
    };
    format!("{reloads} and {} per slot{share}", ms(seconds))
}

fn prediction_clause(inputs: &AnswerInputs) -> String {
    let Some(prediction) = &inputs.prediction else {
        if let Some(why) = &inputs.prediction_problem {
            return why.clone();
        }
        return missing_evidence_text(inputs, HOW_TO_MEASURE);
    };
    let measured = measured_on(prediction.measured_on.as_deref());
    if prediction.saved_seconds <= 0.0 {
        return format!("no larger predicted size would save 1 % of replay{measured}");
    }
    let (entries, saved) = (short(prediction.entries), ms(prediction.saved_seconds));
    format!("{entries} entries would save {saved} per slot{measured}")
}
