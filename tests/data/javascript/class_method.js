export class Counter {
  constructor(start = 0) {
    this.value = start;
  }

  /** Adds one and returns the new value. */
  increment() {
    this.value += 1;
    return this.value;
  }

  /** Subtracts one and returns the new value. */
  decrement() {
    
  }

  reset() {
    this.value = 0;
  }
}
