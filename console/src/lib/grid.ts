// Places and sizes in a grid of cells.

import type { Cell, Column } from './api';
import { isNumeric } from './format';

export interface Selection {
  fromRow: number;
  toRow: number;
  fromColumn: number;
  toColumn: number;
}

const CHAR_PX = 7.6;

/** Wide enough for the name and the first rows, within bounds. */
export function columnWidths(columns: Column[], rows: Cell[][], rowsToSee: number): number[] {
  return columns.map((column, at) => {
    let longest = column.name.length + 2;
    for (let row = 0; row < rowsToSee; row += 1) longest = Math.max(longest, rows[row]?.[at]?.length ?? 4);
    // Digits are wider than letters, and gaps come between them.
    const chars = isNumeric(column.type) ? longest * 1.2 : longest;
    return Math.min(400, Math.max(72, chars * CHAR_PX + 26));
  });
}

/** The numbers from `from` up to before `to`, as far as they are within `length`. */
export function numbers(from: number, to: number, length: number): number[] {
  const start = Math.max(0, from);
  return Array.from({ length: Math.max(0, Math.min(to, length) - start) }, (_, at) => start + at);
}

interface Place {
  row: number;
  column: number;
  /** Ctrl or Cmd is held: to the edge. */
  whole: boolean;
  page: number;
  rows: number;
  columns: number;
}

/** Row and column that a key leads to; may lie beyond the edges. */
export function moveOf(key: string, { row, column, whole, page, rows, columns }: Place): [number, number] | undefined {
  const moves: Record<string, [number, number]> = {
    ArrowUp: [whole ? 0 : row - 1, column],
    ArrowDown: [whole ? rows - 1 : row + 1, column],
    ArrowLeft: [row, whole ? 0 : column - 1],
    ArrowRight: [row, whole ? columns - 1 : column + 1],
    PageUp: [row - page, column],
    PageDown: [row + page, column],
    Home: [whole ? 0 : row, 0],
    End: [whole ? rows - 1 : row, columns - 1],
  };
  return moves[key];
}
