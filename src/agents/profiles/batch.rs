//! Limits of the transactions that process many profiles or versions, so that other writes do not wait for long.

/// Maximum number of items processed in one transaction.
const ITEMS_AT_ONCE: usize = 20;
/// Total size after which a transaction processes no more items. Other writes then wait for about 6 ms: reading, merging, and
/// storing an agent of 250 KB takes 2.5 ms.
const BYTES_AT_ONCE: i64 = 512 * 1024;

/// Number and size of the items that the current transaction can still process.
pub(in crate::agents) struct Batch {
    items: usize,
    bytes: i64,
}

/// Items to process next.
pub(in crate::agents) struct Page<T> {
    pub(in crate::agents) items: Vec<T>,
    /// Position of the next page; `None` if this is the last one.
    pub(in crate::agents) next: Option<T>,
    pub(in crate::agents) bytes: i64,
}

impl Batch {
    pub(in crate::agents) fn new() -> Self {
        Self {
            items: ITEMS_AT_ONCE,
            bytes: BYTES_AT_ONCE,
        }
    }

    pub(in crate::agents) fn is_full(&self) -> bool {
        self.items == 0 || self.bytes <= 0
    }

    /// Maximum length of the list that is passed to `take`.
    pub(in crate::agents) fn limit(&self) -> i64 {
        i64::try_from(self.items).unwrap_or(i64::MAX)
    }

    /// Takes items from the beginning of a list until the batch is full, and at least one unless it is already full. The list
    /// contains the size of each item.
    pub(in crate::agents) fn take<T: Clone>(&mut self, found: &[(T, i64)]) -> Page<T> {
        let limit = self.items;
        let (mut items, mut taken) = (Vec::new(), 0);
        for (item, bytes) in found {
            if self.is_full() {
                break;
            }
            self.items -= 1;
            self.bytes -= bytes;
            taken += bytes;
            items.push(item.clone());
        }
        // An empty page counts as one item, so that loops end.
        if items.is_empty() {
            self.items = self.items.saturating_sub(1);
        }
        let is_last = items.len() == found.len() && found.len() < limit;
        let next = items.last().filter(|_| !is_last).cloned();
        Page {
            items,
            next,
            bytes: taken,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_ends_with_its_number_of_items_or_bytes() {
        let small: Vec<(i64, i64)> = (0..30).map(|n| (n, 10)).collect();
        let mut batch = Batch::new();
        let page = batch.take(&small[..20]);
        assert_eq!(
            (page.items.len(), page.next, page.bytes),
            (20, Some(19), 200)
        );
        assert!(batch.is_full());

        let mut batch = Batch::new();
        let page = batch.take(&[(1, BYTES_AT_ONCE), (2, 1)]);
        assert_eq!((page.items, page.next), (vec![1], Some(1)));
        assert!(batch.is_full());

        let mut batch = Batch::new();
        let page = batch.take(&[(1, 10), (2, 10)]);
        assert_eq!((page.items, page.next), (vec![1, 2], None));
        assert!(!batch.is_full());
        assert_eq!(batch.limit(), 18);
    }

    #[test]
    fn an_item_that_is_too_large_is_taken_alone() {
        let page = Batch::new().take(&[(1, 2 * BYTES_AT_ONCE), (2, 1)]);
        assert_eq!((page.items, page.next), (vec![1], Some(1)));
    }

    #[test]
    fn empty_pages_fill_a_batch() {
        let mut batch = Batch::new();
        let mut pages = 0;
        while !batch.is_full() {
            batch.take::<i64>(&[]);
            pages += 1;
        }
        assert_eq!(pages, ITEMS_AT_ONCE);
    }
}
