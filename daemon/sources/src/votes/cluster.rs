//! The cluster's name, and the versions of its nodes.

use faultline_agave::{
    PublicKey,
    rpc::{ClusterNode, NodeVersion, VoteAccounts},
    version::{ValidatorClient, Version},
};
use std::{cmp::Ordering, collections::HashMap};

/// By genesis hash, from `solana genesis-hash` and Agave's documentation.
const PUBLIC_CLUSTERS: [(&str, &str); 3] = [
    (
        "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d",
        "mainnet-beta",
    ),
    ("4uhcVJyU9pJkvQyS88uRDiswHXSCkY3zQawwpjk2NsNY", "testnet"),
    ("EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG", "devnet"),
];

/// The hash itself if the cluster is not public.
pub fn name(genesis_hash: &str) -> &str {
    PUBLIC_CLUSTERS
        .iter()
        .find(|(hash, _)| *hash == genesis_hash)
        .map_or(genesis_hash, |(_, name)| name)
}

/// A label value and its share of the cluster's active stake.
type Share = (&'static str, f64);

/// The cluster's stake by version, relative to this node's.
#[derive(Debug, Clone)]
pub struct VersionShares {
    pub versions: [Share; 4],
    pub feature_sets: [Share; 3],
}

/// `None` without stake, or if this node's version `own` is unreadable. The stake of this node
/// counts under `own`. Gossip may still show the version of an earlier machine with this identity.
pub fn version_shares(
    votes: &VoteAccounts,
    nodes: &[ClusterNode],
    identity: PublicKey,
    own: &NodeVersion,
) -> Option<VersionShares> {
    let own_release = Version::parse(&own.solana_core).ok()?.release();
    let nodes: HashMap<PublicKey, &ClusterNode> = nodes
        .iter()
        .filter_map(|node| Some((node.pubkey?, node)))
        .collect();
    let (mut newer, mut same, mut older, mut unknown) = (0.0, 0.0, 0.0, 0.0);
    let (mut same_set, mut other_set, mut unknown_set) = (0.0, 0.0, 0.0);
    for (account, _) in votes.all() {
        let Some(stake) = account.activated_stake.map(|lamports| lamports as f64) else {
            continue;
        };
        let node = account.node_pubkey.and_then(|key| nodes.get(&key));
        let runs_agave = |node: &&&ClusterNode| {
            node.client_id
                .as_ref()
                .is_none_or(ValidatorClient::runs_agave)
        };
        let (release, feature_set) = if account.node_pubkey == Some(identity) {
            (Some(own_release), own.feature_set)
        } else {
            let release = node.filter(runs_agave).and_then(|node| node.release);
            (release, node.and_then(|node| node.feature_set))
        };
        match release.map(|release| release.cmp(&own_release)) {
            Some(Ordering::Greater) => newer += stake,
            Some(Ordering::Equal) => same += stake,
            Some(Ordering::Less) => older += stake,
            None => unknown += stake,
        }
        match feature_set.zip(own.feature_set) {
            Some((theirs, own)) if theirs == own => same_set += stake,
            Some(_) => other_set += stake,
            None => unknown_set += stake,
        }
    }
    let total = newer + same + older + unknown;
    (total > 0.0).then(|| VersionShares {
        versions: [
            ("newer", newer / total),
            ("same", same / total),
            ("older", older / total),
            ("unknown", unknown / total),
        ],
        feature_sets: [
            ("same", same_set / total),
            ("other", other_set / total),
            ("unknown", unknown_set / total),
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::key;
    use serde_json::json;

    #[test]
    fn the_cluster_is_identified_by_its_genesis_hash() {
        assert_eq!(
            name("5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d"),
            "mainnet-beta"
        );
        assert_eq!(name("abc"), "abc");
    }

    #[test]
    fn cluster_versions_are_weighted_by_stake() {
        let vote = |node: &str, stake: u64| json!({"activatedStake": stake, "commission": 0, "epochCredits": [], "lastVote": 0, "nodePubkey": key(node).to_string(), "rootSlot": 0, "votePubkey": key(node).to_string()});
        let votes = json!({"current": [vote("a", 40), vote("b", 30), vote("c", 20)], "delinquent": [vote("d", 10)]});
        let nodes = json!([
            {"pubkey": key("a").to_string(), "version": "2.1.14", "featureSet": 7}, {"pubkey": key("b").to_string(), "version": "2.2.0-jito", "featureSet": 8},
            {"pubkey": key("c").to_string(), "version": "2.1.13", "featureSet": 7}, {"pubkey": key("rpc").to_string(), "version": "9.9.9", "featureSet": 9}
        ]);
        let (votes, nodes) = (
            serde_json::from_str(&votes.to_string()).unwrap(),
            serde_json::from_str::<Vec<_>>(&nodes.to_string()).unwrap(),
        );
        let own = NodeVersion {
            solana_core: "2.1.14".to_owned(),
            feature_set: Some(7),
        };
        let found = version_shares(&votes, &nodes, key("x"), &own).unwrap();
        assert_eq!(
            found.versions,
            [
                ("newer", 0.3),
                ("same", 0.4),
                ("older", 0.2),
                ("unknown", 0.1)
            ]
        );
        assert_eq!(
            found.feature_sets,
            [("same", 0.6), ("other", 0.3), ("unknown", 0.1)]
        );
        assert!(
            version_shares(&VoteAccounts::default(), &nodes, key("x"), &own).is_none(),
            "no stake, no shares"
        );
    }

    #[test]
    fn the_own_stake_counts_for_the_own_version_regardless_of_gossip() {
        let vote = json!({"activatedStake": 4, "nodePubkey": key("a").to_string(), "votePubkey": key("v").to_string()});
        let votes = json!({"current": [vote], "delinquent": []}).to_string();
        let votes = serde_json::from_str(&votes).unwrap();
        let own = NodeVersion {
            solana_core: "2.1.14".to_owned(),
            feature_set: Some(7),
        };
        let older = json!([{"pubkey": key("a").to_string(), "version": "2.1.13", "featureSet": 6}]);
        for nodes in [older, json!([])] {
            let nodes: Vec<ClusterNode> = serde_json::from_str(&nodes.to_string()).unwrap();
            let found = version_shares(&votes, &nodes, key("a"), &own).unwrap();
            let same = |shares: &[Share]| shares.contains(&("same", 1.0));
            assert!(same(&found.versions) && same(&found.feature_sets));
        }
    }

    /// How the version of the only other node compares: newer, same, older or unknown.
    fn of_one(own: &str, other: &str, client: Option<&str>) -> &'static str {
        let vote = json!({"activatedStake": 4, "commission": 0, "epochCredits": [], "lastVote": 0, "nodePubkey": key("a").to_string(), "rootSlot": 0, "votePubkey": key("a").to_string()});
        let votes = json!({"current": [vote], "delinquent": []}).to_string();
        let nodes = json!([{"pubkey": key("a").to_string(), "version": other, "clientId": client}]);
        let votes = serde_json::from_str(&votes).unwrap();
        let nodes: Vec<ClusterNode> = serde_json::from_str(&nodes.to_string()).unwrap();
        let own = NodeVersion {
            solana_core: own.to_owned(),
            feature_set: None,
        };
        let found = version_shares(&votes, &nodes, key("x"), &own).unwrap();
        let mut all = found.versions.into_iter();
        all.find(|(_, share)| *share > 0.0).unwrap().0
    }

    #[test]
    fn versions_order_prereleases_first_and_map_frankendancer_to_agave() {
        for (own, other, is) in [
            ("4.1.0-beta.2", "4.1.0", "newer"),
            ("4.1.0", "4.1.0-rc.1", "older"),
            ("4.5.0-alpha.4", "4.49157.4", "same"),
            ("4.0.2", "0.808.40200", "newer"),
            ("4.2.0", "0.808.40200", "same"),
            ("0.101.0-beta.40002", "4.0.0-beta.2", "same"),
            ("0.32869.40002", "4.0.2", "newer"),
            ("2.1.14", "2.1.14-jito", "same"),
        ] {
            assert_eq!(of_one(own, other, None), is, "{own} beside {other}");
        }
        assert_eq!(of_one("4.4.0", "4.4.0", Some("HarmonicAgave")), "same");
        for client in ["Firedancer", "HarmonicFiredancer", "FireBAM", "Sig"] {
            assert_eq!(of_one("4.4.0", "26.1000.0", Some(client)), "unknown");
        }
    }
}
