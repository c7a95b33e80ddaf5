// How far a statement is that runs now.

import { asApiError, getJson, rows } from './api';
import { percentOf } from './format';

/** `GET /api/v1/queries/{id}`, as far as it is used here. */
interface ServerStatement {
  state: string;
  elapsed_ms: number;
  progress: { rows_read: number; rows_total: number | null } | null;
}

const EVERY_MS = 500;
/** Statements that run now, with those of the console. */
const RUNNING_SQL = `SELECT query_id, query FROM system.local_queries WHERE state <> 'prepared' ORDER BY query_id`;
/** The server keeps no more of a text. */
const COMPARED_CHARS = 1000;

/** Follows one statement after the other. The server is asked only about those that take longer than a moment. */
export class StatementProgress {
  state = $state<string | null>(null);
  rowsRead = $state<number | null>(null);
  /** An estimate; null where tables have no statistics. */
  rowsTotal = $state<number | null>(null);
  rowsPerSecond = $state<number | null>(null);
  percent = $derived(percentOf(this.rowsRead, this.rowsTotal));
  private sql = '';
  private number: string | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private turn = 0;
  private before: { rows: number; ms: number } | null = null;
  /** Users who are no superusers have to wait for the number. */
  private mayList = true;

  start(sql: string): void {
    this.stop();
    this.sql = sql;
    this.schedule(this.turn);
  }

  /** The head of the answer told the number. */
  know(number: string): void {
    this.number = number;
  }

  stop(): void {
    clearTimeout(this.timer);
    this.turn += 1;
    this.number = null;
    this.before = null;
    this.state = null;
    this.rowsRead = null;
    this.rowsTotal = null;
    this.rowsPerSecond = null;
  }

  private schedule(turn: number): void {
    this.timer = setTimeout(() => void this.look(turn), EVERY_MS);
  }

  private async look(turn: number): Promise<void> {
    try {
      const number = this.number ?? (await this.find());
      if (turn !== this.turn) return;
      if (number !== null) {
        const statement = await getJson<ServerStatement>(`/api/v1/queries/${encodeURIComponent(number)}`);
        if (turn !== this.turn) return;
        this.number = number;
        this.show(statement);
      }
    } catch {
      // The statement itself tells what is wrong with the server.
    }
    if (turn === this.turn) this.schedule(turn);
  }

  /** The head leaves with the first rows, so a statement that computes has to be found by its text. The newest is ours. */
  private async find(): Promise<string | null> {
    if (!this.mayList) return null;
    try {
      const running = await rows(RUNNING_SQL);
      const wanted = this.sql.trim().slice(0, COMPARED_CHARS);
      return running.findLast(({ query }) => query?.trim().slice(0, COMPARED_CHARS) === wanted)?.query_id ?? null;
    } catch (failure) {
      this.mayList = asApiError(failure).code !== 'permission_denied';
      return null;
    }
  }

  private show({ state, elapsed_ms, progress }: ServerStatement): void {
    this.state = state;
    this.rowsRead = progress?.rows_read ?? null;
    this.rowsTotal = progress?.rows_total ?? null;
    if (!progress) return;
    const now = { rows: progress.rows_read, ms: elapsed_ms };
    const since = this.before ?? { rows: 0, ms: 0 };
    if (now.ms > since.ms) this.rowsPerSecond = Math.round(((now.rows - since.rows) / (now.ms - since.ms)) * 1000);
    this.before = now;
  }
}
