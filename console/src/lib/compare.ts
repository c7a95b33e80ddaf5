// Compares the rows of two answers. Without ORDER BY their order does not matter.

import type { Cell, Column } from './api';

export interface Comparison {
  equal: boolean;
  /** What differs first, for people. */
  detail: string | null;
}

export function compareRows(columns: Column[], left: Cell[][], right: Cell[][]): Comparison {
  if (left.length !== right.length) {
    return { equal: false, detail: `${left.length} rows from the cube, ${right.length} from the tables` };
  }
  const [one, two] = [sorted(columns, left), sorted(columns, right)];
  for (let row = 0; row < one.length; row += 1) {
    const at = columns.findIndex((column, index) => !equalCells(column, one[row]?.[index], two[row]?.[index]));
    if (at >= 0) {
      const detail = `${columns[at]?.name}: ${one[row]?.[at]} from the cube, ${two[row]?.[at]} from the tables`;
      return { equal: false, detail };
    }
  }
  return { equal: true, detail: null };
}

/** Floats are left out of the order, since their last digits may differ. */
function sorted(columns: Column[], rows: Cell[][]): Cell[][] {
  const exact = columns.flatMap((column, index) => (isFloat(column) ? [] : [index]));
  const floats = columns.flatMap((column, index) => (isFloat(column) ? [index] : []));
  const keyed = rows.map((row) => ({ row, key: exact.map((index) => row[index] ?? '\u0000').join('\u0001') }));
  keyed.sort((a, b) => {
    if (a.key !== b.key) return a.key < b.key ? -1 : 1;
    for (const index of floats) {
      const difference = Number(a.row[index]) - Number(b.row[index]);
      if (difference) return difference;
    }
    return 0;
  });
  return keyed.map(({ row }) => row);
}

function isFloat(column: Column): boolean {
  return column.type === 'real' || column.type === 'double precision';
}

/** Sums of floats depend on the order of their parts: equal means within 1e-9 of their size, as in CHECK CUBE. */
function equalCells(column: Column, left: Cell | undefined, right: Cell | undefined): boolean {
  if (left === right) return true;
  if (!isFloat(column) || left == null || right == null) return false;
  const [a, b] = [Number(left), Number(right)];
  return Math.abs(a - b) <= 1e-9 * Math.max(Math.abs(a), Math.abs(b));
}
