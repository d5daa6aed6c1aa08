//! The three encodings of the validator's wire: base58 for keys and hashes, base64 for transactions, compact-u16 for lengths.

const BASE58: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Base58 with the Bitcoin alphabet; each leading zero byte is one `1`.
pub fn base58(bytes: &[u8]) -> String {
    let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
    let mut digits: Vec<u8> = Vec::new();
    for &byte in bytes {
        let mut carry = u32::from(byte);
        for digit in &mut digits {
            carry += u32::from(*digit) << 8;
            *digit = (carry % 58) as u8;
            carry /= 58;
        }
        while carry > 0 {
            digits.push((carry % 58) as u8);
            carry /= 58;
        }
    }
    let ones = std::iter::repeat_n('1', zeros);
    ones.chain(digits.iter().rev().map(|&digit| char::from(BASE58[usize::from(digit)]))).collect()
}

/// The 32 bytes of a key or hash; `None` when the text is not base58 or has another length.
pub fn from_base58(text: &str) -> Option<[u8; 32]> {
    let ones = text.bytes().take_while(|&byte| byte == b'1').count();
    let mut value = [0_u8; 32];
    for byte in text.bytes() {
        let mut carry = BASE58.iter().position(|&digit| digit == byte)?;
        for place in value.iter_mut().rev() {
            carry += usize::from(*place) * 58;
            *place = (carry & 0xff) as u8;
            carry >>= 8;
        }
        if carry != 0 {
            return None;
        }
    }
    let zeros = value.iter().take_while(|&&byte| byte == 0).count();
    (zeros == ones).then_some(value)
}

/// Base64 with the standard alphabet and padding.
pub fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group = chunk.iter().fold(0_u32, |group, &byte| group << 8 | u32::from(byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let digit = (group >> (18 - 6 * place)) & 0x3f;
            text.push(if place <= chunk.len() { char::from(BASE64[digit as usize]) } else { '=' });
        }
    }
    text
}

/// The bytes of base64 with the standard alphabet; `None` for anything else.
pub fn from_base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for chunk in text.trim_end_matches('=').as_bytes().chunks(4) {
        let mut group = 0_u32;
        for &letter in chunk {
            group = group << 6 | u32::try_from(BASE64.iter().position(|&digit| digit == letter)?).ok()?;
        }
        let whole = (group << (6 * (4 - chunk.len()))).to_be_bytes();
        bytes.extend(&whole[1..chunk.len()]);
    }
    Some(bytes)
}

/// Appends a length as the legacy transaction format has it: 7 bits a byte, lowest first, the high bit says "more".
pub fn push_compact_u16(bytes: &mut Vec<u8>, length: u16) {
    let mut rest = length;
    while rest > 0x7f {
        bytes.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn well_known_addresses_have_their_well_known_texts() {
        assert_eq!(base58(&[0; 32]), "1".repeat(32));
        let memo = "MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr";
        let bytes = from_base58(memo).unwrap();
        assert_eq!(bytes[..8], [0x05, 0x4a, 0x53, 0x5a, 0x99, 0x29, 0x21, 0x06]);
        assert_eq!(base58(&bytes), memo);
    }

    #[test]
    fn what_is_not_32_bytes_of_base58_has_no_key() {
        for text in ["", "1", &"1".repeat(33), &"z".repeat(44), "MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcH0"] {
            assert_eq!(from_base58(text), None, "{text}");
        }
    }

    #[test]
    fn base64_gives_the_answers_of_rfc_4648() {
        let answers =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("fooba", "Zm9vYmE=")];
        for (text, answer) in answers {
            assert_eq!(from_base64(answer).unwrap(), text.as_bytes());
            assert_eq!(base64(text.as_bytes()), answer);
        }
        assert_eq!(base64(&[0xff, 0xfe, 0xfd]), "//79");
    }

    #[test]
    fn compact_u16_gives_the_known_answers() {
        let answers: [(u16, &[u8]); 8] = [
            (0, &[0]),
            (0x7f, &[0x7f]),
            (0x80, &[0x80, 0x01]),
            (0xff, &[0xff, 0x01]),
            (0x100, &[0x80, 0x02]),
            (0x7fff, &[0xff, 0xff, 0x01]),
            (0x8000, &[0x80, 0x80, 0x02]),
            (0xffff, &[0xff, 0xff, 0x03]),
        ];
        for (length, answer) in answers {
            let mut bytes = Vec::new();
            push_compact_u16(&mut bytes, length);
            assert_eq!(bytes, answer, "{length:#x}");
        }
    }

    proptest! {
        #[test]
        fn a_key_survives_base58(zeros in 0_usize..32, key: [u8; 32]) {
            let mut key = key;
            key[..zeros].fill(0);
            prop_assert_eq!(from_base58(&base58(&key)), Some(key));
        }
    }
}
