// Results as texts for other programs.

import type { Cell, Column } from './api';
import { isNumeric } from './format';

export type CopyFormat = 'tsv' | 'csv' | 'json' | 'markdown';

export const COPY_FORMATS: { format: CopyFormat; label: string; mime: string; extension: string }[] = [
  { format: 'tsv', label: 'TSV', mime: 'text/tab-separated-values', extension: 'tsv' },
  { format: 'csv', label: 'CSV', mime: 'text/csv', extension: 'csv' },
  { format: 'json', label: 'JSON', mime: 'application/json', extension: 'json' },
  { format: 'markdown', label: 'Markdown', mime: 'text/markdown', extension: 'md' },
];

export interface FileFormat {
  format: string;
  label: string;
  mime: string;
  extension: string;
}

/** Files that the server writes, of all rows of a result. */
export const FILE_FORMATS: FileFormat[] = [
  { format: 'all-parquet', label: 'Parquet, all rows', mime: 'application/vnd.apache.parquet', extension: 'parquet' },
  { format: 'all-csv', label: 'CSV, all rows', mime: 'text/csv', extension: 'csv' },
];

export function writeRows(format: CopyFormat, columns: Column[], rows: Cell[][], headers = true): string {
  switch (format) {
    case 'tsv':
      return lines(columns, rows, headers, '\t', (cell) => (cell ?? '').replace(/[\t\r\n]/g, ' '));
    case 'csv':
      return lines(columns, rows, headers, ',', csvCell);
    case 'json':
      return `[\n${rows.map((row) => jsonRow(columns, row)).join(',\n')}\n]\n`;
    case 'markdown':
      return markdown(columns, rows);
  }
}

function lines(
  columns: Column[],
  rows: Cell[][],
  headers: boolean,
  separator: string,
  write: (cell: Cell) => string,
): string {
  const head = headers ? [columns.map((column) => write(column.name))] : [];
  const body = rows.map((row) => row.map(write));
  return [...head, ...body].map((cells) => `${cells.join(separator)}\n`).join('');
}

/** As the server writes CSV: null is an empty cell, an empty text is `""`. */
function csvCell(cell: Cell): string {
  if (cell === null) return '';
  return cell === '' || /[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell;
}

function jsonRow(columns: Column[], row: Cell[]): string {
  const names = uniqueNames(columns);
  const fields = columns.map((column, at) => `${JSON.stringify(names[at])}: ${jsonCell(column, row[at] ?? null)}`);
  return `  {${fields.join(', ')}}`;
}

function jsonCell(column: Column, cell: Cell): string {
  if (cell === null) return 'null';
  const isLiteral = column.type === 'boolean' || (isNumeric(column.type) && /^-?\d/.test(cell));
  const isNested = column.type.endsWith('[]') || column.type === 'record' || column.type === 'map';
  return isLiteral || isNested ? cell : JSON.stringify(cell);
}

/** Of columns with equal names the second `a` is called `a_2`, as in the server's NDJSON. */
function uniqueNames(columns: Column[]): string[] {
  const seen = new Map<string, number>();
  return columns.map(({ name }) => {
    const times = (seen.get(name) ?? 0) + 1;
    seen.set(name, times);
    return times === 1 ? name : `${name}_${times}`;
  });
}

function markdown(columns: Column[], rows: Cell[][]): string {
  const write = (cell: Cell) => (cell ?? '').replaceAll('|', '\\|').replace(/\r?\n/g, '<br>');
  const line = (cells: string[]) => `| ${cells.join(' | ')} |\n`;
  const rule = line(columns.map((column) => (isNumeric(column.type) ? '---:' : '---')));
  return line(columns.map((column) => write(column.name))) + rule + rows.map((row) => line(row.map(write))).join('');
}

export function download(name: string, mime: string, content: string | Blob): void {
  const url = URL.createObjectURL(new Blob([content], { type: mime }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** Browsers close the clipboard to pages over plain HTTP from other machines; then a selection is copied. */
export async function copyText(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    copySelected(text);
  }
}

function copySelected(text: string): void {
  const area = document.createElement('textarea');
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand('copy');
  area.remove();
}
