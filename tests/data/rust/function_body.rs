/// Returns the largest number of a slice, or None if it is empty.
pub fn largest(numbers: &[i64]) -> Option<i64> {
    let mut best: Option<i64> = None;
    for &number in numbers {
        match best {
            Some(current) if current >= number => {}
            _ => best = ,
        }
    }
    best
}

/// Returns the sum of a slice.
pub fn sum(numbers: &[i64]) -> i64 {
    numbers.iter().sum()
}
