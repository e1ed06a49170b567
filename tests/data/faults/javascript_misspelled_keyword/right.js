class Counter {
  constructor() {
    this.count = 0;
  }
}

function create() {
  return new Counter();
}
