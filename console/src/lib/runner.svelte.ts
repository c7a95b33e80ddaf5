// Runs statements of one editor tab, and holds what came back.

import { type ApiError, asApiError, type Cell, type Column, query, type QueryResult } from './api';
import { FileDownload } from './file-download.svelte';
import { remember } from './history.svelte';
import { StatementProgress } from './progress.svelte';
import type { Route } from './route';
import { loadSchema } from './schema.svelte';
import type { Settings } from './settings';

const NOTHING: QueryResult = {
  columns: [],
  rows: [],
  more: false,
  complete: false,
  command: null,
  route: null,
  elapsedMs: null,
  tookMs: 0,
};

export class Runner {
  isRunning = $state(false);
  startedAt = $state(0);
  sql = $state('');
  settings = $state.raw<Settings>({});
  columns = $state.raw<Column[]>([]);
  rows = $state.raw<Cell[][]>([]);
  /** The rows are filled in place: this tells how many there are. */
  rowCount = $state(0);
  more = $state(false);
  complete = $state(false);
  command = $state<string | null>(null);
  tookMs = $state(0);
  elapsedMs = $state<number | null>(null);
  error = $state.raw<ApiError | null>(null);
  route = $state.raw<Route | null>(null);
  readonly progress = new StatementProgress();
  /** Of all rows of the statement; goes on while another one runs. */
  readonly file = new FileDownload();
  private abort: AbortController | null = null;
  private frame = 0;

  /** One statement after the other; the last one's rows stay. An error ends it. */
  async run(statements: string[], maxRows: number, settings: Settings): Promise<void> {
    if (this.isRunning) return;
    this.isRunning = true;
    this.file.forget();
    this.settings = settings;
    this.abort = new AbortController();
    for (const sql of statements) {
      await this.runOne(sql, maxRows, this.abort.signal);
      if (this.error) break;
    }
    this.isRunning = false;
    const changedSchema = statements.some((sql) => /^\s*(create|drop|alter)\b/i.test(sql));
    if (changedSchema) void loadSchema();
  }

  cancel(): void {
    this.abort?.abort();
  }

  private async runOne(sql: string, maxRows: number, signal: AbortSignal): Promise<void> {
    this.sql = sql;
    this.startedAt = Date.now();
    this.error = null;
    this.show(NOTHING);
    this.progress.start(sql);
    const started = performance.now();
    let latest: QueryResult | null = null;
    const onProgress = (result: QueryResult) => {
      latest = result;
      this.frame ||= requestAnimationFrame(() => {
        this.frame = 0;
        this.show(result);
      });
    };
    try {
      const onNumber = (number: string) => this.progress.know(number);
      const settings = this.settings;
      this.showNow(await query(sql, { signal, maxRows, withRoute: true, onProgress, onNumber, settings }));
    } catch (error) {
      if (latest) this.showNow(latest);
      this.error = asApiError(error);
      this.tookMs = performance.now() - started;
    }
    this.progress.stop();
    const error = this.error?.message ?? null;
    remember({ sql, at: this.startedAt, tookMs: this.tookMs, rows: this.rowCount, error });
  }

  private showNow(result: QueryResult): void {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    this.show(result);
  }

  private show(result: QueryResult): void {
    this.columns = result.columns;
    this.rows = result.rows;
    this.rowCount = result.rows.length;
    this.more = result.more;
    this.complete = result.complete;
    this.command = result.command;
    this.route = result.route;
    this.elapsedMs = result.elapsedMs;
    this.tookMs = result.tookMs;
  }
}

const runners = new Map<number, Runner>();

export function runnerOf(tab: number): Runner {
  const known = runners.get(tab);
  if (known) return known;
  const runner = new Runner();
  runners.set(tab, runner);
  return runner;
}

export function dropRunner(tab: number): void {
  runners.get(tab)?.cancel();
  runners.get(tab)?.file.cancel();
  runners.delete(tab);
}
