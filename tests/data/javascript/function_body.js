/** Groups the items of an array by a key. */
export function groupBy(items, keyOf) {
  const groups = new Map();
  for (const item of items) {
    const key = keyOf(item);
    if (!groups.has(key)) {
      groups.set(key, []);
    }
    
  }
  return groups;
}

/** Sums the numbers of an array. */
export function sum(numbers) {
  return numbers.reduce((total, number) => total + number, 0);
}
