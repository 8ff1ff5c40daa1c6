//! Number of values in a message, which bounds the memory that the decoded message takes: the smallest value has one byte, and
//! takes up to a hundred and fifty in memory.

/// Maximum number of values. A report has fifteen for each of the files that it lists, of which there are ten thousand at most, and
/// one for each number of its rich results, which have a maximum size.
pub(crate) const MAX_VALUES: usize = 1 << 20;

/// Returns true if a message in MessagePack has at most [`MAX_VALUES`] values. A message that is malformed may have any result.
pub(crate) fn are_within_maximum(message: &[u8]) -> bool {
    let mut rest = message;
    for _ in 0..MAX_VALUES {
        // Containers are followed by their values.
        match size_of_value(rest).and_then(|size| rest.get(size..)) {
            Some(next) if !next.is_empty() => rest = next,
            _ => return true,
        }
    }
    false
}

/// Returns the size of the value at the start, without the values that it contains; `None` if there is none.
fn size_of_value(bytes: &[u8]) -> Option<usize> {
    let number = |size: usize| {
        let digits = bytes.get(1..=size)?;
        Some(digits.iter().fold(0, |number, digit| number << 8 | usize::from(*digit)))
    };
    Some(match *bytes.first()? {
        marker @ 0xa0..=0xbf => 1 + usize::from(marker & 0x1f),
        0xc4 | 0xd9 => 2 + number(1)?,
        0xc5 | 0xda => 3 + number(2)?,
        0xc6 | 0xdb => 5 + number(4)?,
        0xc7 => 3 + number(1)?,
        0xc8 => 4 + number(2)?,
        0xc9 => 6 + number(4)?,
        0xcc | 0xd0 => 2,
        0xcd | 0xd1 | 0xd4 | 0xdc | 0xde => 3,
        0xd5 => 4,
        0xca | 0xce | 0xd2 | 0xdd | 0xdf => 5,
        0xd6 => 6,
        0xcb | 0xcf | 0xd3 => 9,
        0xd7 => 10,
        0xd8 => 18,
        _ => 1,
    })
}

#[cfg(test)]
mod tests {
    use serde_bytes::ByteBuf;

    use super::*;

    #[test]
    fn sizes_are_those_of_the_encoder() {
        let encoded = |value: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = Vec::new();
            value(&mut bytes);
            bytes
        };
        let write = |value: &mut Vec<u8>, number: i64| rmp_serde::encode::write(value, &number).expect("it is encoded");
        for number in [0, 127, 128, 255, 256, 65535, 65536, i64::MAX, -1, -32, -33, -128, -129, -32769, i64::MIN] {
            let bytes = encoded(&|into| write(into, number));
            assert_eq!(size_of_value(&bytes), Some(bytes.len()), "{number}");
        }
        for length in [0, 1, 31, 32, 255, 256, 65535, 65536] {
            let text = encoded(&|into| rmp_serde::encode::write(into, &"x".repeat(length)).expect("it is encoded"));
            let binary = encoded(&|into| {
                rmp_serde::encode::write(into, &ByteBuf::from(vec![0; length])).expect("it is encoded");
            });
            assert_eq!([size_of_value(&text), size_of_value(&binary)], [Some(text.len()), Some(binary.len())]);
        }
        let floats =
            encoded(&|into| rmp_serde::encode::write(into, &(1.5_f64, 1.5_f32, true, ())).expect("it is encoded"));
        let sizes = [1, 9, 5, 1, 1];
        let mut rest = &floats[..];
        for size in sizes {
            assert_eq!(size_of_value(rest), Some(size));
            rest = &rest[size..];
        }
        assert!(rest.is_empty());
        for length in [15, 16, 65536] {
            let list = encoded(&|into| rmp_serde::encode::write(into, &vec![(); length]).expect("it is encoded"));
            assert_eq!(size_of_value(&list), Some(list.len() - length));
        }
    }

    #[test]
    fn values_are_counted_at_any_depth() {
        let list = |count: usize| [&[0xdd][..], &(count as u32).to_be_bytes(), &vec![0xc0; count]].concat();
        assert!(are_within_maximum(&list(MAX_VALUES - 1)));
        assert!(!are_within_maximum(&list(MAX_VALUES)));
        assert!(!are_within_maximum(&vec![0x91; MAX_VALUES + 1]));
        assert!(are_within_maximum(&[]) && are_within_maximum(&[0xdb, 0xff, 0xff, 0xff, 0xff]));
    }
}
