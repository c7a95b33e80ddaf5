// Clients in this page that ask one query again and again.

import { asApiError, query } from './api';

export interface LoadPoint {
  /** Seconds since 1970. */
  at: number;
  clients: number;
  perSecond: number;
  p50Ms: number | null;
  p95Ms: number | null;
  errors: number;
}

/** Browsers open no more connections to one server over HTTP/1.1; further clients would wait in the browser. */
export const MOST_CLIENTS = 6;

const EVERY_MS = 500;

export class LoadTest {
  isRunning = $state(false);
  points = $state.raw<LoadPoint[]>([]);
  /** One for each number of clients, when it was held for its time. */
  steps = $state.raw<LoadPoint[]>([]);
  asked = $state(0);
  failed = $state(0);
  lastError = $state<string | null>(null);
  private abort = new AbortController();
  private times: number[] = [];
  private errors = 0;

  async run(sql: string, clients: number[], secondsEach: number): Promise<void> {
    this.isRunning = true;
    this.abort = new AbortController();
    this.points = [];
    this.steps = [];
    this.asked = 0;
    this.failed = 0;
    this.lastError = null;
    for (const count of clients) {
      if (this.abort.signal.aborted) break;
      await this.hold(sql, count, secondsEach);
    }
    this.isRunning = false;
  }

  stop(): void {
    this.abort.abort();
  }

  private async hold(sql: string, clients: number, seconds: number): Promise<void> {
    const ended = new AbortController();
    const end = () => ended.abort();
    this.abort.signal.addEventListener('abort', end);
    const timer = setTimeout(end, seconds * 1000);
    const all: number[] = [];
    this.times = [];
    this.errors = 0;
    const started = performance.now();
    let last = started;
    const sampler = setInterval(() => {
      const now = performance.now();
      all.push(...this.times);
      this.points = [...this.points, pointOf(this.times, (now - last) / 1000, clients, this.errors)];
      this.times = [];
      this.errors = 0;
      last = now;
    }, EVERY_MS);
    await Promise.all(Array.from({ length: clients }, () => this.client(sql, ended.signal)));
    clearInterval(sampler);
    clearTimeout(timer);
    all.push(...this.times);
    this.steps = [...this.steps, pointOf(all, (performance.now() - started) / 1000, clients, 0)];
  }

  private async client(sql: string, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const started = performance.now();
      try {
        await query(sql, { signal });
        this.times.push(performance.now() - started);
        this.asked += 1;
      } catch (failure) {
        const error = asApiError(failure);
        if (error.code === 'cancelled') return;
        this.errors += 1;
        this.failed += 1;
        this.lastError = error.message;
        // A server that refuses at once must not be asked thousands of times a second.
        await new Promise((resolve) => setTimeout(resolve, 200));
      }
    }
  }
}

function pointOf(times: number[], seconds: number, clients: number, errors: number): LoadPoint {
  const sorted = [...times].sort((a, b) => a - b);
  const quantile = (of: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * of))] ?? null;
  return {
    at: Date.now() / 1000,
    clients,
    perSecond: times.length / seconds,
    p50Ms: quantile(0.5),
    p95Ms: quantile(0.95),
    errors,
  };
}
