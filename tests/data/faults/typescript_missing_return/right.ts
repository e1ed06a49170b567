export function countWords(text: string): number {
  const words = text.split(" ");
  let count = 0;
  for (const word of words) {
    if (word.length > 0) {
      count += 1;
    }
  }
  return count;
}
