pub fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

pub fn index_of<T: PartialEq>(all: &[T], value: &T) -> u8 {
    all.iter().position(|one| one == value).unwrap_or_default() as u8
}

pub struct Content<'a>(pub &'a [u8]);

impl<'a> Content<'a> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn take(&mut self, length: u64) -> Result<&'a [u8], String> {
        let split = usize::try_from(length)
            .ok()
            .and_then(|length| self.0.split_at_checked(length));
        let (taken, rest) = split.ok_or("its content ends within a field")?;
        self.0 = rest;
        Ok(taken)
    }

    pub fn byte(&mut self) -> Result<u8, String> {
        self.take(1)?.first().copied().ok_or_else(String::new)
    }

    pub fn one_of<T: Copy>(&mut self, all: &[T], what: &str) -> Result<T, String> {
        let index = self.byte()?;
        let found = all.get(usize::from(index));
        found
            .copied()
            .ok_or_else(|| format!("{index} is no {what}"))
    }

    pub fn number(&mut self) -> Result<u64, String> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err("a number has more than 64 bits".to_owned())
    }

    pub fn number_u32(&mut self) -> Result<u32, String> {
        u32::try_from(self.number()?).map_err(|_| "a number has more than 32 bits".to_owned())
    }

    pub fn text(&mut self) -> Result<String, String> {
        let length = self.number()?;
        String::from_utf8(self.take(length)?.to_vec()).map_err(|_| "a text is not UTF-8".to_owned())
    }
}

/// Ethernet's CRC-32.
pub fn checksum(kind: u8, content: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&[kind]);
    sum.update(content);
    sum.finalize()
}
