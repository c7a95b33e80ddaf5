// Reads Prometheus' text format as far as the home screen needs it.

export interface Sample {
  name: string;
  labels: Record<string, string>;
  value: number;
}

export function parseMetrics(text: string): Sample[] {
  const samples: Sample[] = [];
  for (const line of text.split('\n')) {
    const parts = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/.exec(line);
    if (!parts) continue;
    const labels = Object.fromEntries(
      [...(parts[2] ?? '').matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map((found) => [found[1] ?? '', found[2] ?? '']),
    );
    samples.push({ name: parts[1] ?? '', labels, value: Number(parts[3]) });
  }
  return samples;
}

export function total(samples: Sample[], name: string): number {
  return samples.reduce((sum, sample) => (sample.name === name ? sum + sample.value : sum), 0);
}

/** Buckets of a histogram, upper bound to count, added over all lines with these labels. */
export function buckets(samples: Sample[], name: string, labels: Record<string, string> = {}): Map<number, number> {
  const wanted = Object.entries(labels);
  const counts = new Map<number, number>();
  for (const sample of samples) {
    if (sample.name !== `${name}_bucket` || sample.labels.le === undefined) continue;
    if (wanted.some(([label, value]) => sample.labels[label] !== value)) continue;
    const bound = sample.labels.le === '+Inf' ? Number.POSITIVE_INFINITY : Number(sample.labels.le);
    counts.set(bound, (counts.get(bound) ?? 0) + sample.value);
  }
  return counts;
}

/** The quantile of what was counted between two looks, or null if nothing was. */
export function quantileBetween(
  before: Map<number, number>,
  after: Map<number, number>,
  quantile: number,
): number | null {
  const bounds = [...after.keys()].sort((a, b) => a - b);
  const counted = bounds.map((bound) => (after.get(bound) ?? 0) - (before.get(bound) ?? 0));
  const all = counted.at(-1) ?? 0;
  if (all <= 0) return null;
  const rank = all * quantile;
  const at = counted.findIndex((below) => below >= rank);
  const [upper, lower] = [bounds[at] ?? 0, at > 0 ? (bounds[at - 1] ?? 0) : 0];
  if (!Number.isFinite(upper)) return lower;
  const [above, below] = [counted[at] ?? 0, at > 0 ? (counted[at - 1] ?? 0) : 0];
  return lower + ((upper - lower) * (rank - below)) / Math.max(1, above - below);
}
