// Asks a query twice, with cubes and without, and compares the answers.

import { type ApiError, asApiError, query } from './api';
import { compareRows } from './compare';
import type { Settings } from './settings';

export interface TableComparison {
  equal: boolean;
  detail: string | null;
  rows: number;
  cubeMs: number;
  tablesMs: number;
  /** Not all rows were fetched, so nothing was compared. */
  tooMany: boolean;
  error: ApiError | null;
}

const MOST_ROWS = 100_000;

/** Null if it was stopped. */
export async function compareWithTables(
  sql: string,
  settings: Settings,
  signal: AbortSignal,
): Promise<TableComparison | null> {
  const none = { equal: false, detail: null, rows: 0, cubeMs: 0, tablesMs: 0, tooMany: false, error: null };
  try {
    const cube = await query(sql, { signal, settings, maxRows: MOST_ROWS });
    if (cube.more) return { ...none, rows: MOST_ROWS, tooMany: true };
    const tables = await query(sql, {
      signal,
      settings: { ...settings, 'nyala.use_cubes': 'off' },
      maxRows: MOST_ROWS,
    });
    if (tables.more) return { ...none, rows: MOST_ROWS, tooMany: true };
    return {
      ...none,
      ...compareRows(cube.columns, cube.rows, tables.rows),
      rows: cube.rows.length,
      cubeMs: cube.elapsedMs ?? cube.tookMs,
      tablesMs: tables.elapsedMs ?? tables.tookMs,
    };
  } catch (failure) {
    const error = asApiError(failure);
    return error.code === 'cancelled' ? null : { ...none, error };
  }
}
