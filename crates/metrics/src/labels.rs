use crate::Text;
use std::fmt;
use std::ops::Deref;

/// Label values in the metric's order. Up to two are stored inline: a tick makes hundreds of
/// readings, and few have more.
#[derive(Clone, Default)]
pub struct Labels(Storage);

#[derive(Clone, Default)]
enum Storage {
    #[default]
    None,
    One([Text; 1]),
    Two([Text; 2]),
    Many(Box<[Text]>),
}

impl Deref for Labels {
    type Target = [Text];

    fn deref(&self) -> &[Text] {
        match &self.0 {
            Storage::None => &[],
            Storage::One(labels) => labels,
            Storage::Two(labels) => labels,
            Storage::Many(labels) => labels,
        }
    }
}

impl FromIterator<Text> for Labels {
    fn from_iter<I: IntoIterator<Item = Text>>(labels: I) -> Self {
        let mut rest = labels.into_iter();
        Labels(match (rest.next(), rest.next(), rest.next()) {
            (Some(first), Some(second), Some(third)) => {
                Storage::Many([first, second, third].into_iter().chain(rest).collect())
            }
            (Some(first), Some(second), None) => Storage::Two([first, second]),
            (Some(only), None, _) => Storage::One([only]),
            (None, ..) => Storage::None,
        })
    }
}

impl<const N: usize> From<[Text; N]> for Labels {
    fn from(labels: [Text; N]) -> Self {
        labels.into_iter().collect()
    }
}

impl<'a> IntoIterator for &'a Labels {
    type Item = &'a Text;
    type IntoIter = std::slice::Iter<'a, Text>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl PartialEq for Labels {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_the_slice_they_were_made_of_however_many_there_are() {
        fn check<const N: usize>(texts: [&'static str; N]) {
            let labels = Labels::from(texts.map(Text::from));
            assert!(labels.iter().map(Text::as_str).eq(texts));
            assert_eq!(labels, labels.clone());
        }
        check([]);
        check(["a"]);
        check(["a", "b"]);
        check(["a", "b", "c"]);
        check(["a", "b", "c", "d"]);
        assert_ne!(
            Labels::from(["a".into()]),
            Labels::from(["a".into(), "b".into()])
        );
        assert_eq!(Labels::default(), Labels::from([]));
    }
}
