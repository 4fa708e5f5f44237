//! Signs of vectors in memory: a bit for each value, by which the nearest passages are picked before their bytes are read.

use std::{
    collections::{BinaryHeap, HashSet},
    sync::Arc,
};

use uuid::Uuid;

/// Number of passages whose bytes are read to rank them.
const PICKED: usize = 500;
/// Number of passages of a block. A block that is not full is copied when passages are added.
const BLOCK: usize = 4_096;

/// A passage: its number, and the set of passages of its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub no: i64,
    pub set: Uuid,
}

/// Signs of the vectors of a workspace's passages. A copy shares its blocks.
#[derive(Debug, Clone, Default)]
pub struct Bits {
    blocks: Vec<Arc<Block>>,
}

#[derive(Debug, Clone, Default)]
struct Block {
    places: Vec<Place>,
    /// Signs of all vectors, one after the other.
    signs: Vec<u64>,
}

/// Number of integers for the signs of a vector.
fn width(dimensions: usize) -> usize {
    dimensions.div_ceil(64)
}

/// Memory for a passage in bytes.
pub fn passage_bytes(dimensions: usize) -> usize {
    size_of::<Place>() + size_of::<u64>() * width(dimensions)
}

/// A bit for each value: 1 if it is positive.
fn signs(values: impl ExactSizeIterator<Item = bool>) -> Vec<u64> {
    let mut signs = vec![0; width(values.len())];
    for (n, is_positive) in values.enumerate() {
        signs[n / 64] |= u64::from(is_positive) << (n % 64);
    }
    signs
}

/// Signs of a vector of bytes.
fn signs_of(vector: &[u8]) -> Vec<u64> {
    signs(vector.iter().map(|byte| byte.cast_signed() > 0))
}

impl Bits {
    /// Number of passages.
    pub(super) fn len(&self) -> usize {
        let full = self.blocks.len().saturating_sub(1) * BLOCK;
        let last = self.blocks.last().map_or(0, |block| block.places.len());
        full + last
    }

    pub fn add(&mut self, place: Place, vector: &[u8]) {
        let is_full = |block: &Arc<Block>| block.places.len() >= BLOCK;
        if self.blocks.last().is_none_or(is_full) {
            self.blocks.push(Arc::default());
        }
        if let Some(block) = self.blocks.last_mut() {
            let block = Arc::make_mut(block);
            block.places.push(place);
            block.signs.extend(signs_of(vector));
        }
    }

    /// The passages of these sets whose bytes are read to rank them for a question, in any order.
    pub fn pick(&self, question: &[f32], allowed: &HashSet<Uuid>) -> Vec<Place> {
        let question = signs(question.iter().map(|value| *value > 0.0));
        self.nearest(&question, allowed, PICKED)
    }

    /// The passages of these sets whose signs differ least from those of a question, in any order.
    fn nearest(&self, question: &[u64], allowed: &HashSet<Uuid>, count: usize) -> Vec<Place> {
        let mut nearest: BinaryHeap<(u32, Place)> = BinaryHeap::with_capacity(count + 1);
        // Passages of a file follow each other.
        let mut last: Option<(Uuid, bool)> = None;
        for block in &self.blocks {
            let signs = block.signs.chunks_exact(question.len().max(1));
            for (place, signs) in block.places.iter().zip(signs) {
                let is_allowed = match last {
                    Some((set, is_allowed)) if set == place.set => is_allowed,
                    _ => {
                        let is_allowed = allowed.contains(&place.set);
                        last = Some((place.set, is_allowed));
                        is_allowed
                    }
                };
                if !is_allowed {
                    continue;
                }
                let pairs = signs.iter().zip(question);
                let distance: u32 = pairs.map(|(a, b)| (a ^ b).count_ones()).sum();
                if nearest.len() < count {
                    nearest.push((distance, *place));
                } else if let Some(mut farthest) = nearest.peek_mut()
                    && distance < farthest.0
                {
                    *farthest = (distance, *place);
                }
            }
        }
        nearest.into_iter().map(|(_, place)| place).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(vectors: &[(i64, u128, &[i8])]) -> Bits {
        let mut bits = Bits::default();
        for (no, set, vector) in vectors {
            let vector: Vec<u8> = vector.iter().map(|value| value.cast_unsigned()).collect();
            let place = Place {
                no: *no,
                set: Uuid::from_u128(*set),
            };
            bits.add(place, &vector);
        }
        bits
    }

    fn numbers(found: Vec<Place>) -> Vec<i64> {
        let mut numbers: Vec<i64> = found.into_iter().map(|place| place.no).collect();
        numbers.sort_unstable();
        numbers
    }

    #[test]
    fn the_nearest_passages_of_allowed_sets_are_picked() {
        let bits = bits(&[
            (1, 7, &[5, 5, 5]),
            (2, 7, &[-5, -5, -5]),
            (3, 8, &[5, 5, 5]),
            (4, 9, &[5, 5, -5]),
            (5, 7, &[5, -5, -5]),
        ]);
        let question = signs([0.5_f32, 0.1, 0.2].iter().map(|value| *value > 0.0));
        let allowed = HashSet::from([Uuid::from_u128(7), Uuid::from_u128(9)]);
        let find = |count| numbers(bits.nearest(&question, &allowed, count));
        assert_eq!(find(1), [1]);
        assert_eq!(find(2), [1, 4]);
        assert_eq!(find(3), [1, 4, 5]);
        assert_eq!(find(500), [1, 2, 4, 5]);
        assert!(bits.nearest(&question, &HashSet::new(), 5).is_empty());
    }

    #[test]
    fn signs_are_kept_for_long_vectors_and_many_blocks() {
        let vector = |n: usize| -> Vec<u8> {
            let values = (0..130).map(|at| if at == n % 130 { 1_i8 } else { -1 });
            values.map(i8::cast_unsigned).collect()
        };
        let mut bits = Bits::default();
        for n in 0..BLOCK + 130 {
            let place = Place {
                no: i64::try_from(n).unwrap(),
                set: Uuid::nil(),
            };
            bits.add(place, &vector(n));
        }
        let before = bits.clone();
        let added = Place {
            no: -1,
            set: Uuid::nil(),
        };
        bits.add(added, &vector(129));
        let allowed = HashSet::from([Uuid::nil()]);
        let found = |bits: &Bits| bits.nearest(&signs_of(&vector(129)), &allowed, 100);
        assert_eq!(found(&bits).len(), found(&before).len());
        assert_eq!((bits.len(), before.len()), (BLOCK + 131, BLOCK + 130));
        assert_eq!(Bits::default().len(), 0);
        assert!(numbers(found(&bits)).contains(&-1));
        assert!(!numbers(found(&before)).contains(&-1));
        assert_eq!(passage_bytes(768), 24 + 96);
    }
}
