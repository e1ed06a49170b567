"use strict";

/** Runs jobs at their times, one after the other, and keeps a short history of what went wrong. */

const HISTORY_LIMIT = 50;

class Job {
  constructor(name, intervalMs, work) {
    if (intervalMs <= 0) {
      throw new RangeError(`the interval of ${name} must be positive`);
    }
    this.name = name;
    this.intervalMs = intervalMs;
    this.work = work;
    this.nextRun = 0;
    this.failures = 0;
  }

  /** Whether the job should run at this time. */
  isDue(now) {
    return now >= this.nextRun;
  }

  /** Waits longer after every failure, at most sixteen intervals. */
  schedule(now) {
    const factor = Math.min(2 ** this.failures, 16);
    this.nextRun = now + this.intervalMs * factor;
  }
}

class Scheduler {
  constructor(clock = Date.now) {
    this.clock = clock;
    this.jobs = new Map();
    this.history = [];
    this.running = false;
  }

  add(name, intervalMs, work) {
    if (this.jobs.has(name)) {
      throw new Error(`there is a job called ${name} already`);
    }
    const job = new Job(name, intervalMs, work);
    this.jobs.set(name, job);
    return job;
  }

  remove(name) {
    return this.jobs.delete(name);
  }

  /** Names of the jobs that are due, the longest overdue first. */
  due(now = this.clock()) {
    return [...this.jobs.values()]
      .filter((job) => job.isDue(now))
      .sort((a, b) => a.nextRun - b.nextRun)
      .map((job) => job.name);
  }

  /** Runs everything that is due; returns how many jobs succeeded. */
  async tick() {
    if (this.running) {
      return 0;
    }
    this.running = true;
    let succeeded = 0;
    try {
      for (const name of this.due()) {
        const job = this.jobs.get(name);
        try {
          await job.work();
          job.failures = 0;
          succeeded += 1;
        } catch (error) {
          job.failures += 1;
          this.remember(name, error);
        }
        job.schedule(this.clock());
      }
    } finally {
      this.running = false;
    }
    return succeeded;
  }

  remember(name, error) {
    this.history.push({ name, message: error.message, at: this.clock() });
    if (this.history.length > HISTORY_LIMIT) {
      this.history.shift();
    }
  }

  /** How often each job has failed, as far as the history goes back. */
  failuresByJob() {
    const counts = {};
    for (const entry of this.history) {
      counts[entry.name] = (counts[entry.name] || 0) + 1;
    }
    return counts;
  }
}

module.exports = { Job, Scheduler };
