// Figures of /metrics over time, for the home screen.

import { type ApiError, asApiError, getText } from './api';
import { buckets, parseMetrics, quantileBetween, type Sample, total } from './metrics';

export interface Vital {
  /** Seconds since 1970, as uPlot wants them. */
  at: number;
  perSecond: number;
  p50Ms: number | null;
  p95Ms: number | null;
  running: number;
}

/** Ten minutes at one look in two seconds. */
const KEPT = 300;

export class Vitals {
  points = $state.raw<Vital[]>([]);
  samples = $state.raw<Sample[]>([]);
  error = $state.raw<ApiError | null>(null);
  private before: { at: number; samples: Sample[] } | null = null;

  async look(): Promise<void> {
    try {
      const samples = parseMetrics(await getText('/metrics'));
      const at = performance.now();
      if (this.before) this.add(this.before, { at, samples });
      this.before = { at, samples };
      this.samples = samples;
      this.error = null;
    } catch (failure) {
      this.error = asApiError(failure);
      // Counters begin anew with the process, so nothing is compared over a gap.
      this.before = null;
    }
  }

  total(name: string): number {
    return total(this.samples, name);
  }

  private add(before: { at: number; samples: Sample[] }, now: { at: number; samples: Sample[] }): void {
    const seconds = (now.at - before.at) / 1000;
    const started = total(now.samples, 'nyala_queries_total') - total(before.samples, 'nyala_queries_total');
    if (started < 0) return;
    const [one, two] = [before, now].map(({ samples }) =>
      buckets(samples, 'nyala_query_phase_seconds', { phase: 'running' }),
    );
    const quantile = (of: number) => {
      const found = one && two ? quantileBetween(one, two, of) : null;
      return found === null ? null : found * 1000;
    };
    const point = {
      at: Date.now() / 1000,
      perSecond: started / seconds,
      p50Ms: quantile(0.5),
      p95Ms: quantile(0.95),
      running: total(now.samples, 'nyala_queries_running'),
    };
    this.points = [...this.points, point].slice(-KEPT);
  }
}
