use serde_json::Value;

/// Method and parameters, with the placeholders of [`crate::plan::Case::call`].
pub type RpcCall = (&'static str, &'static str);

#[derive(Debug)]
pub struct Chain {
    pub name: &'static str,
    /// `slot` or `block`.
    pub height_unit: &'static str,
    /// Method, parameters, and whether all nodes must agree.
    pub methods: &'static [(&'static str, &'static str, bool)],
    pub default_methods: &'static [&'static str],
    pub newest_call: RpcCall,
    /// The lowest answer ends the range of random heights.
    pub random_range_end_call: RpcCall,
    /// `None` if nodes have all blocks.
    pub oldest_call: Option<RpcCall>,
    pub version_call: RpcCall,
    pub genesis_call: RpcCall,
    /// Here the placeholder is not random: it is the height to check.
    pub block_call: RpcCall,
    /// The hash's field, if the result is an object.
    pub hash_field: &'static str,
    /// The default range ends this far below the answer to `random_range_end_call`.
    pub unfinalized_margin: u64,
}

/// The first is the default.
pub const CHAINS: [Chain; 3] = [
    Chain {
        name: "solana",
        height_unit: "slot",
        methods: &[
            (
                "getBlock",
                r#"[{random},{"encoding":"json","maxSupportedTransactionVersion":0,"rewards":false}]"#,
                true,
            ),
            ("getBlockTime", "[{random}]", true),
            ("getBlocksWithLimit", "[{random},100]", true),
            ("getSlot", r#"[{"commitment":"processed"}]"#, false),
            ("getLatestBlockhash", "[]", false),
            ("getEpochInfo", "[]", false),
        ],
        default_methods: &["getBlock", "getBlockTime", "getSlot"],
        newest_call: ("getSlot", r#"[{"commitment":"processed"}]"#),
        random_range_end_call: ("getSlot", r#"[{"commitment":"finalized"}]"#),
        oldest_call: Some(("getFirstAvailableBlock", "[]")),
        version_call: ("getVersion", "[]"),
        genesis_call: ("getGenesisHash", "[]"),
        block_call: (
            "getBlock",
            r#"[{random},{"transactionDetails":"none","maxSupportedTransactionVersion":0,"rewards":false}]"#,
        ),
        hash_field: "blockhash",
        unfinalized_margin: 0,
    },
    Chain {
        name: "evm",
        height_unit: "block",
        methods: &[
            ("eth_getBlockByNumber", r#"["{hex}",true]"#, true),
            ("eth_getBlockReceipts", r#"["{hex}"]"#, true),
            (
                "eth_getLogs",
                r#"[{"fromBlock":"{hex}","toBlock":"{hex}"}]"#,
                true,
            ),
            ("eth_blockNumber", "[]", false),
            ("eth_gasPrice", "[]", false),
        ],
        default_methods: &[
            "eth_getBlockByNumber",
            "eth_getBlockReceipts",
            "eth_blockNumber",
        ],
        newest_call: ("eth_blockNumber", "[]"),
        random_range_end_call: ("eth_blockNumber", "[]"),
        oldest_call: None,
        version_call: ("web3_clientVersion", "[]"),
        genesis_call: ("eth_getBlockByNumber", r#"["0x0",false]"#),
        block_call: ("eth_getBlockByNumber", r#"["{hex}",false]"#),
        hash_field: "hash",
        // Two epochs of Ethereum, after which blocks are final.
        unfinalized_margin: 64,
    },
    Chain {
        name: "starknet",
        height_unit: "block",
        // Named parameters, because some nodes require every positional one.
        methods: &[
            (
                "starknet_getBlockWithTxs",
                r#"{"block_id":{"block_number":{random}}}"#,
                true,
            ),
            (
                "starknet_getEvents",
                r#"{"filter":{"from_block":{"block_number":0},"to_block":{"block_number":{random}},"chunk_size":10}}"#,
                true,
            ),
            ("starknet_blockHashAndNumber", "[]", false),
        ],
        default_methods: &["starknet_getBlockWithTxs", "starknet_getEvents"],
        newest_call: ("starknet_blockHashAndNumber", "[]"),
        random_range_end_call: ("starknet_blockHashAndNumber", "[]"),
        oldest_call: None,
        version_call: ("starknet_specVersion", "[]"),
        genesis_call: (
            "starknet_getBlockWithTxHashes",
            r#"{"block_id":{"block_number":0}}"#,
        ),
        block_call: (
            "starknet_getBlockWithTxHashes",
            r#"{"block_id":{"block_number":{random}}}"#,
        ),
        hash_field: "block_hash",
        unfinalized_margin: 0,
    },
];

pub fn call_json((method, params): (&str, &str)) -> String {
    format!(r#""method":"{method}","params":{params}"#)
}

/// Reads a number, a hexadecimal text, or an object with `block_number`.
pub fn height(value: &Value) -> Option<u64> {
    match value {
        Value::String(text) => u64::from_str_radix(text.strip_prefix("0x")?, 16).ok(),
        Value::Object(fields) => fields.get("block_number")?.as_u64(),
        other => other.as_u64(),
    }
}

pub fn hash(chain: &Chain, value: &Value) -> Option<String> {
    let hash = value.as_str().or(value[chain.hash_field].as_str())?;
    Some(match hash.strip_prefix("0x") {
        // Nodes may pad with zeros.
        Some(digits) => format!("0x{}", digits.trim_start_matches('0').to_lowercase()),
        None => hash.to_owned(),
    })
}

pub fn version(value: &Value) -> Option<&str> {
    value.as_str().or(value["solana-core"].as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn heights_and_versions_are_parsed_in_each_chains_format() {
        // The study of Pathfinder and Juno quotes this answer.
        let starknet = json!({"block_hash": "0x8e366ce31c3e4e34b5b5d31fd0564033966721cf93853a77b3a5741aba5188", "block_number": 451_104});
        let heights = [json!(7), json!("0x1f"), starknet].map(|value| height(&value));
        assert_eq!(heights, [Some(7), Some(31), Some(451_104)]);
        assert_eq!(
            [json!("31"), json!(-1), json!(null), json!("0x")].map(|value| height(&value)),
            [None; 4]
        );
        assert_eq!(version(&json!("Geth/v1.16.9")), Some("Geth/v1.16.9"));
        assert_eq!(version(&json!({"solana-core": "2.1.14"})), Some("2.1.14"));
    }

    #[test]
    fn each_chains_usual_methods_are_known() {
        for chain in &CHAINS {
            assert!(
                chain
                    .default_methods
                    .iter()
                    .all(|default| chain.methods.iter().any(|(name, ..)| name == default))
            );
        }
    }
}
