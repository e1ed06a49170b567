//! The stock of a workshop: parts on shelves, orders that take them away.

use std::collections::BTreeMap;
use std::fmt;

#[derive(Debug, Clone, PartialEq)]
pub enum StockError {
    UnknownPart(String),
    NotEnough { part: String, wanted: u32, available: u32 },
}

impl fmt::Display for StockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StockError::UnknownPart(part) => write!(f, "there is no part called {}", part),
            StockError::NotEnough { part, wanted, available } => {
                write!(f, "{} of {} wanted, {} on the shelf", wanted, part, available)
            }
        }
    }
}

#[derive(Debug, Clone)]
pub struct Part {
    pub name: String,
    pub count: u32,
    pub minimum: u32,
    pub price_cents: u64,
}

#[derive(Debug, Default)]
pub struct Inventory {
    parts: BTreeMap<String, Part>,
}

impl Inventory {
    pub fn new() -> Self {
        Inventory { parts: BTreeMap::new() }
    }

    /// Puts parts on the shelf; a new part gets a shelf of its own.
    pub fn add(&mut self, name: &str, count: u32, price_cents: u64) {
        let part = self.parts.entry(name.to_string()).or_insert_with(|| Part {
            name: name.to_string(),
            count: 0,
            minimum: 0,
            price_cents,
        });
        part.count += count;
        part.price_cents = price_cents;
    }

    /// Takes parts from the shelf, all of them or none.
    pub fn take(&mut self, name: &str, wanted: u32) -> Result<u32, StockError> {
        let part = self
            .parts
            .get_mut(name)
            .ok_or_else(|| StockError::UnknownPart(name.to_string()))?;
        if part.count < wanted {
            return Err(StockError::NotEnough {
                part: name.to_string(),
                wanted,
                available: part.count,
            });
        }
        part.count -= wanted;
        Ok(part.count)
    }

    /// The value of everything on the shelves, in cents.
    pub fn value(&self) -> u64 {
        self.parts
            .values()
            .map(|part| u64::from(part.count) * part.price_cents)
            .sum()
    }

    /// Names of the parts of which there are fewer than there should be.
    pub fn to_order(&self) -> Vec<&str> {
        self.parts
            .values()
            .filter(|part| part.count < part.minimum)
            .map(|part| part.name.as_str())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taking_more_than_there_is_changes_nothing() {
        let mut inventory = Inventory::new();
        inventory.add("bolt", 3, 12);
        let result = inventory.take("bolt", 5);
        assert!(result.is_err());
        assert_eq!(inventory.take("bolt", 3), Ok(0));
    }
}
