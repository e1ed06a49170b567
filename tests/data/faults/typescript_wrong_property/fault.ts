export function last(items: string[]): string {
  return items[items.lenght - 1];
}
