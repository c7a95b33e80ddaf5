// Ranges of segments, as SHOW SEGMENTS writes them, and statements over them.

import type { Row } from './api';

export interface Segment {
  id: string | null;
  range: string;
  state: string;
  reason: string | null;
  row: Row;
  /** Bounds as the server writes them; null for a cube without ranges. */
  from: string | null;
  to: string | null;
  /** Share of the line, from the width of the range. */
  weight: number;
}

export function segmentsOf(rows: Row[]): Segment[] {
  return rows.map((row) => {
    const range = row.range ?? '';
    const bounds = /^\[(.+), (.+)\)$/.exec(range);
    const written = /^written at (\d+) to (\d+)$/.exec(range);
    const [from, to] = [bounds?.[1] ?? null, bounds?.[2] ?? null];
    return {
      id: row.segment ?? null,
      range,
      state: row.state ?? '',
      reason: row.reason ?? null,
      row,
      from,
      to,
      weight: written ? widthOf(written[1] ?? '', written[2] ?? '') + 1 : from && to ? widthOf(from, to) : 1,
    };
  });
}

function widthOf(from: string, to: string): number {
  const width = (position(to) ?? 1) - (position(from) ?? 0);
  return Number.isFinite(width) && width > 0 ? width : 1;
}

/** A place on the line: days for dates, else the number itself. */
function position(bound: string): number | null {
  const compact = /^(\d{4})(\d\d)(\d\d)$/.exec(bound);
  if (compact) return Date.UTC(Number(compact[1]), Number(compact[2]) - 1, Number(compact[3])) / 86_400_000;
  if (/^-?\d+$/.test(bound)) return Number(bound);
  const ms = Date.parse(bound);
  return Number.isNaN(ms) ? null : ms / 86_400_000;
}
