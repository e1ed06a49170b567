fn scaled(value: f64, factor: f64) -> f64 {
    let result = value * factor
    result
}

fn main() {
    println!("{}", scaled(2.0, 1.5));
}
