// Statements that were run in the editor, kept in the browser.

import { namesPassword } from './sql';
import { load, save } from './store';

export interface Run {
  sql: string;
  at: number;
  tookMs: number;
  rows: number;
  error: string | null;
}

const KEPT = 300;
/** Longer texts would fill the browser's storage. */
const LONGEST = 20_000;

export const history = $state<{ runs: Run[] }>({ runs: load<unknown[]>('history', []).filter(isRun) });

/** What the browser kept may be damaged. */
function isRun(value: unknown): value is Run {
  const run = value as Partial<Run> | null;
  const isTold = run?.error === null || typeof run?.error === 'string';
  return typeof run?.sql === 'string' && typeof run.at === 'number' && typeof run.tookMs === 'number' && isTold;
}

export function remember(run: Run): void {
  if (run.sql.length > LONGEST || namesPassword(run.sql)) return;
  history.runs = [run, ...history.runs].slice(0, KEPT);
  save('history', history.runs);
}

export function forgetAll(): void {
  history.runs = [];
  save('history', []);
}
