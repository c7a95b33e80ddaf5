// Rows of text with separators between their fields: CSV, TSV and the like, read by the rules of the server.

import { isPlainText } from './column-types';

/** Null is no value: an empty field without quotes. */
export type Field = string | null;

export interface Dialect {
  separator: string;
  /** Fields may stand in quotes, and then hold separators and ends of lines. */
  quotes: boolean;
  /** The first row names the columns. */
  header: boolean;
}

export interface TextRow {
  /** Where it begins, counted from 1. */
  line: number;
  fields: Field[];
  /** The place behind it in the text. */
  end: number;
}

type Cut = Pick<Dialect, 'separator' | 'quotes'>;

export const SEPARATORS: { value: string; label: string }[] = [
  { value: ',', label: 'comma' },
  { value: ';', label: 'semicolon' },
  { value: '\t', label: 'tab' },
  { value: '|', label: 'vertical bar' },
];

/** Rows that a dialect is guessed from. */
const GUESSED_ROWS = 200;

/** The rows of a text, as far as they are whole. An empty line is no row. The last row needs no end of its line if the text `isWhole`. */
export function* rowsOf(text: string, { separator, quotes }: Cut, isWhole: boolean, firstLine = 1): Generator<TextRow> {
  const ends = new RowEnds(text, quotes);
  let [at, line] = [0, firstLine];
  while (at < text.length) {
    const found = ends.after(at);
    if (found < 0 && !isWhole) return;
    const end = found < 0 ? text.length : found;
    const row = text.slice(at, text[end - 1] === '\r' && end > at ? end - 1 : end);
    if (row !== '') yield { line, fields: fieldsOf(row, separator, quotes), end: end + 1 };
    line += linesIn(text, at, end) + 1;
    at = end + 1;
  }
}

/** Finds ends of lines that are in no quotes, from the beginning of a text to its end. */
class RowEnds {
  private quote = -1;
  private hasQuotes: boolean;

  constructor(
    private readonly text: string,
    quotes: boolean,
  ) {
    this.hasQuotes = quotes;
  }

  /** -1 if there is none. */
  after(start: number): number {
    let at = start;
    for (;;) {
      const end = this.text.indexOf('\n', at);
      const quote = this.quoteAfter(at);
      if (quote < 0 || (end >= 0 && end < quote)) return end;
      const closing = this.text.indexOf('"', quote + 1);
      if (closing < 0) return -1;
      at = closing + 1;
    }
  }

  /** Looked for once for all rows before it: a text without quotes would be searched to its end for each row. */
  private quoteAfter(at: number): number {
    if (this.hasQuotes && this.quote < at) {
      this.quote = this.text.indexOf('"', at);
      this.hasQuotes = this.quote >= 0;
    }
    return this.hasQuotes ? this.quote : -1;
  }
}

function linesIn(text: string, from: number, to: number): number {
  let found = 0;
  for (let at = text.indexOf('\n', from); at >= 0 && at < to; at = text.indexOf('\n', at + 1)) found += 1;
  return found;
}

function fieldsOf(row: string, separator: string, quotes: boolean): Field[] {
  if (!quotes || !row.includes('"')) return row.split(separator).map((field) => (field === '' ? null : field));
  const fields: Field[] = [];
  let [start, isQuoted] = [0, false];
  for (let at = 0; at < row.length; at += 1) {
    if (row[at] === '"') isQuoted = !isQuoted;
    else if (row[at] === separator && !isQuoted) {
      fields.push(quotedField(row.slice(start, at)));
      start = at + 1;
    }
  }
  fields.push(quotedField(row.slice(start)));
  return fields;
}

/** Two quotes within quotes are one. */
function quotedField(field: string): Field {
  if (!field.includes('"')) return field === '' ? null : field;
  let [value, isQuoted] = ['', false];
  for (let at = 0; at < field.length; at += 1) {
    if (field[at] !== '"') value += field[at];
    else if (isQuoted && field[at + 1] === '"') {
      value += '"';
      at += 1;
    } else isQuoted = !isQuoted;
  }
  return value;
}

/** A row as the server reads it: CSV with commas. */
export function csvRow(fields: Field[]): string {
  return `${fields.map(csvField).join(',')}\n`;
}

function csvField(field: Field): string {
  if (field === null) return '';
  return field === '' || /[",\r\n]/.test(field) ? `"${field.replaceAll('"', '""')}"` : field;
}

/** The dialect by which most rows have the same number of fields, and among those one with more fields. */
export function guessDialect(text: string, isWhole: boolean): Dialect {
  let best = { separator: ',', quotes: true, share: 0, width: 1 };
  for (const quotes of text.includes('"') ? [true, false] : [true]) {
    for (const { value: separator } of SEPARATORS) {
      const { share, width } = evenness(firstRows(text, { separator, quotes }, isWhole, GUESSED_ROWS));
      // A little more of equal rows is no reason to take a rarer separator, and more fields are none to give up quotes.
      const isWider = quotes === best.quotes && share > best.share - 0.05 && width > best.width;
      const isBetter = share > best.share + 0.05 || isWider;
      if (width > 1 && isBetter) best = { separator, quotes, share, width };
    }
  }
  const { separator, quotes } = best;
  const rows = firstRows(text, { separator, quotes }, isWhole, GUESSED_ROWS);
  return { separator, quotes, header: isHeader(rows[0]?.fields ?? []) };
}

export function firstRows(text: string, cut: Cut, isWhole: boolean, most: number): TextRow[] {
  const rows: TextRow[] = [];
  for (const row of rowsOf(text, cut, isWhole)) {
    rows.push(row);
    if (rows.length >= most) break;
  }
  return rows;
}

/** The number of fields that most rows have, and the share of those rows. */
function evenness(rows: TextRow[]): { share: number; width: number } {
  const widths = new Map<number, number>();
  for (const { fields } of rows) widths.set(fields.length, (widths.get(fields.length) ?? 0) + 1);
  const [width, times] = [...widths].sort(([, one], [, other]) => other - one)[0] ?? [1, 0];
  return { share: times / Math.max(1, rows.length), width };
}

/** Names are texts, and each is there once. */
function isHeader(fields: Field[]): boolean {
  const names = fields.map((field) => field?.trim() ?? '');
  return names.every((name) => name !== '' && isPlainText(name)) && new Set(names).size === names.length;
}
