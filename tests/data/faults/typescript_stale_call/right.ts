function resize(name: string, width: number, height: number): string {
  return `${name}: ${width}x${height}`;
}

export function thumbnail(name: string, width: number, height: number): string {
  return resize(name, width, height);
}
