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

export const history = $state<{ runs: Run[] }>({ runs: load<Run[]>('history', []) });

export function remember(run: Run): void {
  if (run.sql.length > LONGEST || namesPassword(run.sql)) return;
  history.runs = [run, ...history.runs].slice(0, KEPT);
  save('history', history.runs);
}

export function forgetAll(): void {
  history.runs = [];
  save('history', []);
}
