//! Reduces points for drawing only.

pub(crate) type Piece = Vec<(f64, f64)>;

/// Keeps the first, smallest, largest and last value of each of `buckets` time ranges. Returns
/// whether points were left out.
pub(crate) fn thin(x: &[f64], y: &[Option<f64>], buckets: usize) -> (Vec<Piece>, bool) {
    let points = x
        .iter()
        .copied()
        .zip(y.iter().map(|y| y.filter(|y| y.is_finite())))
        .filter(|(x, _)| x.is_finite());
    let points: Vec<(f64, Option<f64>)> = points.collect();
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return (Vec::new(), false);
    };
    let all = points.len() <= buckets.saturating_mul(4);
    let size = (last.0 - first.0) / buckets_as_f64(buckets);
    let bucket = |x: f64| {
        if size > 0.0 {
            ((x - first.0) / size).floor()
        } else {
            0.0
        }
    };
    let mut thinned = Thinned::default();
    for &(x, y) in &points {
        match y {
            None => thinned.end_piece(),
            Some(y) if all => thinned.piece.push((x, y)),
            Some(y) => thinned.add(x, y, bucket(x)),
        }
    }
    thinned.end_piece();
    (thinned.pieces, !all)
}

#[derive(Default)]
struct Thinned {
    pieces: Vec<Piece>,
    piece: Piece,
    open: Option<Bucket>,
}

struct Bucket {
    number: f64,
    first: (f64, f64),
    smallest: (f64, f64),
    largest: (f64, f64),
    last: (f64, f64),
}

impl Thinned {
    fn add(&mut self, x: f64, y: f64, number: f64) {
        let point = (x, y);
        if let Some(open) = self.open.as_mut().filter(|open| same(open.number, number)) {
            if y < open.smallest.1 {
                open.smallest = point;
            }
            if y > open.largest.1 {
                open.largest = point;
            }
            open.last = point;
        } else {
            self.end_bucket();
            self.open = Some(Bucket {
                number,
                first: point,
                smallest: point,
                largest: point,
                last: point,
            });
        }
    }

    fn end_bucket(&mut self) {
        let Some(open) = self.open.take() else { return };
        let mut points = [open.first, open.smallest, open.largest, open.last];
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        for point in points {
            if self.piece.last() != Some(&point) {
                self.piece.push(point);
            }
        }
    }

    fn end_piece(&mut self) {
        self.end_bucket();
        if !self.piece.is_empty() {
            self.pieces.push(std::mem::take(&mut self.piece));
        }
    }
}

fn same(a: f64, b: f64) -> bool {
    (a - b).abs() < 0.5
}

fn buckets_as_f64(buckets: usize) -> f64 {
    buckets.max(1) as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_short_line_is_left_as_it_is_and_broken_where_values_are_missing() {
        let y = [
            Some(1.0),
            None,
            Some(3.0),
            Some(f64::NAN),
            None,
            Some(4.0),
            Some(5.0),
        ];
        let x: Vec<f64> = (0..7).map(f64::from).collect();
        let (pieces, thinned) = thin(&x, &y, 10);
        assert_eq!(
            pieces,
            [
                vec![(0.0, 1.0)],
                vec![(2.0, 3.0)],
                vec![(5.0, 4.0), (6.0, 5.0)]
            ]
        );
        assert!(!thinned);
    }

    proptest! {
        #[test]
        fn extremes_ends_and_order_survive(values in proptest::collection::vec(-1e6_f64..1e6, 50..400)) {
            let x: Vec<f64> = (0..values.len()).map(|index| f64::from(u32::try_from(index).unwrap())).collect();
            let y: Vec<Option<f64>> = values.iter().copied().map(Some).collect();
            let (pieces, _) = thin(&x, &y, 7);
            let kept: Vec<(f64, f64)> = pieces.concat();
            prop_assert!(kept.len() <= 4 * 8);
            prop_assert!(kept.is_sorted_by(|a, b| a.0 < b.0));
            let highest = |points: &[f64]| points.iter().copied().fold(f64::MIN, f64::max);
            let lowest = |points: &[f64]| points.iter().copied().fold(f64::MAX, f64::min);
            let of_kept: Vec<f64> = kept.iter().map(|point| point.1).collect();
            prop_assert_eq!(highest(&of_kept).to_bits(), highest(&values).to_bits());
            prop_assert_eq!(lowest(&of_kept).to_bits(), lowest(&values).to_bits());
            prop_assert_eq!(kept[0].1.to_bits(), values[0].to_bits());
            prop_assert_eq!(kept[kept.len() - 1].1.to_bits(), values[values.len() - 1].to_bits());
        }
    }
}
