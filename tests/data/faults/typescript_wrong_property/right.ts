export function last(items: string[]): string {
  return items[items.length - 1];
}
