function area(width: number, height: number): number {
  return width * height;
}

async function report(): Promise<string> {
  const size = area(2, 3);
  return `size ${size}`;
}
