//! Maps and sets from what an iterator gives.

/// What `collect` makes, item by item. `BTreeMap` and `BTreeSet` collect by sorting first, which is faster for many
/// items and brings 5 KiB of sorting along for each place that does so. For where there are a handful of items, or
/// nobody waits.
pub fn gather<C: Default + Extend<T>, T>(items: impl IntoIterator<Item = T>) -> C {
    let mut all = C::default();
    all.extend(items);
    all
}
