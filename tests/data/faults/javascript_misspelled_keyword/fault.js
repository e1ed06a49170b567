class Counter {
  constructor() {
    this.count = 0;
  }
}

fucntion create() {
  return new Counter();
}
