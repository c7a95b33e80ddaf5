// Long statements such as BUILD CUBE. They go on while another screen is open: the request must stay open, because
// the server cancels what a client that went away has asked for.

import { ApiError, asApiError, query } from './api';

export interface Work {
  id: number;
  sql: string;
  /** Where its progress is seen. */
  screen: { href: string; label: string };
  state: 'running' | 'done' | 'failed';
  error: ApiError | null;
  startedAt: number;
  tookMs: number;
}

export const works = $state<{ all: Work[] }>({ all: [] });
let lastId = 0;

/** Runs a statement to its end, whatever screen is open. */
export function runWork(sql: string): Promise<Work> {
  return track(sql, { href: '#/jobs', label: 'Jobs' }, () => query(sql));
}

/** Shows a work as long as it goes on. */
export async function track(sql: string, screen: Work['screen'], run: () => Promise<unknown>): Promise<Work> {
  lastId += 1;
  works.all.push({ id: lastId, sql, screen, state: 'running', error: null, startedAt: Date.now(), tookMs: 0 });
  const work = works.all[works.all.length - 1] as Work;
  try {
    await run();
    work.state = 'done';
  } catch (error) {
    work.state = 'failed';
    work.error = asApiError(error);
  }
  work.tookMs = Date.now() - work.startedAt;
  return work;
}

export function dismiss(id: number): void {
  works.all = works.all.filter((work) => work.id !== id || work.state === 'running');
}

addEventListener('beforeunload', (event) => {
  if (works.all.some((work) => work.state === 'running')) event.preventDefault();
});
