use super::{
    Engine,
    exchange::Connections,
    pace::{Pace, Retried},
};
use crate::{
    answer::Decoder,
    failure::Failure,
    plan::{Cell as PlanCell, Plan},
};
use anyhow::{Context as _, Result};
use faultline_common::clock;
use futures_util::future::join_all;
use std::collections::BTreeMap;
use tokio_rustls::TlsConnector;

impl Engine {
    /// Sends every cell once, to all arms of a subject at the same time. Returns the decoded bytes.
    pub fn probe(&self, plan: &Plan) -> Result<Vec<Result<Vec<u8>, Failure>>> {
        let pace = Pace::default();
        let answers = self.with_signals(&pace, || (), send_all(plan, self.tls.as_ref(), &pace))?;
        let answers = answers.filter(|_| pace.ended_by().is_none());
        answers.with_context(|| pace.ended_early())
    }

    pub fn probe_json(&self, plan: &Plan) -> Result<Vec<serde_json::Value>> {
        let mut values = Vec::new();
        for (answer, cell) in self.probe(plan)?.into_iter().zip(&plan.cells) {
            let bytes = answer.map_err(|failure| {
                let (node, method) = (plan.arm(cell), &cell.method);
                anyhow::anyhow!("{node} gives no good answer to {method}: {failure}")
            })?;
            values.push(serde_json::from_slice(&bytes)?);
        }
        Ok(values)
    }
}

/// In the order of the cells.
async fn send_all(
    plan: &Plan,
    tls: Option<&TlsConnector>,
    pace: &Pace,
) -> Result<Vec<Result<Vec<u8>, Failure>>> {
    let new = |_| Connections::new(plan, tls.cloned());
    let mut connections: Vec<Connections> = plan.arms.iter().map(new).collect();
    let mut answers = BTreeMap::new();
    for subject in 0..plan.subjects.len() {
        let by_arm = connections.iter_mut().enumerate();
        let sends = by_arm.filter_map(|(arm, connections)| {
            let is_it = |cell: &PlanCell| (cell.arm, cell.subject) == (arm, subject);
            let index = plan.cells.iter().position(is_it)?;
            Some(async move {
                let cell = &plan.cells[index];
                let mut decoder = Decoder::new()?;
                connections.open(plan, cell).await;
                let send = async |at| {
                    connections
                        .exchange(plan, cell, index as u64, &mut decoder, at)
                        .await
                };
                let node = plan.node(cell.link);
                let attempt = pace
                    .send_with_retries(node, clock::uptime(), Retried::RateLimits, send)
                    .await;
                anyhow::Ok(attempt.map(|attempt| {
                    let bytes = attempt.answer.map(|_| decoder.bytes().to_vec());
                    (index, bytes)
                }))
            })
        });
        for answered in join_all(sends).await {
            answers.extend(answered?);
        }
    }
    Ok(answers.into_values().collect())
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{
            plan,
            server::{Reply, Server, http},
        },
        *,
    };
    use crate::answer::Expected;
    use std::{
        sync::{Arc, Barrier},
        time::Duration,
    };

    fn plan_for(server: &Server, arms: usize) -> Plan {
        let known = plan(server, 1, 1, None);
        let name = |arm: usize| format!("node {arm}");
        let cell = |(arm, subject)| PlanCell {
            arm,
            subject,
            link: arm,
            expected: Expected::Text,
            ..known.cells[0].clone()
        };
        let subjects = || ["a", "b"].map(|name| name.to_owned());
        Plan {
            arms: (0..arms).map(name).collect(),
            links: (0..arms).map(|_| known.links[0].clone()).collect(),
            subjects: subjects().into(),
            cells: (0..2)
                .flat_map(|subject| (0..arms).map(move |arm| (arm, subject)))
                .map(cell)
                .collect(),
            ..known.as_ref().clone()
        }
    }

    #[test]
    fn all_nodes_are_queried_at_the_same_moment() {
        // Nobody is answered before all three were asked. A connection that ends says so: nothing is sent on it before that is noticed.
        let (meet, answer) = (
            Arc::new(Barrier::new(3)),
            r#"{"jsonrpc":"2.0","result":7,"id":ID}"#,
        );
        let server = Server::start(move |_, id| {
            meet.wait();
            Reply::Raw(http(
                "200 OK",
                "Connection: close\r\n",
                &answer.replace("ID", &id.to_string()),
            ))
        });
        let plan = plan_for(&server, 3);
        let engine = Engine::new(&plan, None).unwrap();
        assert_eq!(
            engine.probe_json(&plan).unwrap(),
            vec![serde_json::Value::from(7); 6]
        );
    }

    #[test]
    fn a_rate_limited_first_request_is_retried() {
        let server = Server::start(|number, _| match number {
            0 => Reply::Raw(http("429 Too Many Requests", "Retry-After: 0\r\n", "")),
            _ => Reply::After(Duration::ZERO),
        });
        let plan = plan_for(&server, 1);
        let begun = clock::uptime();
        Engine::new(&plan, None).unwrap().probe_json(&plan).unwrap();
        assert!(
            clock::uptime() - begun >= Duration::from_millis(500),
            "not at once, whatever the node says"
        );
    }

    #[test]
    fn an_hour_long_retry_after_ends_requests_to_the_node() {
        let server = Server::start(|_, _| {
            Reply::Raw(http(
                "429 Too Many Requests",
                "Retry-After: 3600\r\nConnection: close\r\n",
                "",
            ))
        });
        let plan = plan_for(&server, 1);
        let refused = Engine::new(&plan, None)
            .unwrap()
            .probe_json(&plan)
            .unwrap_err()
            .to_string();
        assert!(refused.contains("no requests for 1 h"), "{refused}");
    }
}
