fn longest(words: &[String]) -> usize {
    let mut maximum = 0;
    for word in words {
        if word.len() > maximum {
            maximum = word.len();
        }
    }
    maximum
}
