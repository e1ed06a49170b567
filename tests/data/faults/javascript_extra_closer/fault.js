function clamp(value, low, high) {
  if (value < low) {
    return low;
  }
  return Math.min(value, high));
}

module.exports = { clamp };
