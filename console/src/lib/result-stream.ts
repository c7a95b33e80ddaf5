// Reads the JSON document of POST /api/v1/query piece by piece, so that rows can be shown while they arrive.
//
// Cells stay the server's texts. JSON.parse would round integers beyond 2^53 and long decimals.

import { type Route, type ServerRoute, readRoute } from './route';

export type Cell = string | null;

export interface Column {
  name: string;
  type: string;
  nullable: boolean;
}

export interface Summary {
  command: string | null;
  elapsedMs: number | null;
  /** There are rows beyond those that were asked for. */
  more: boolean;
  route: Route | null;
}

/** The end of the document, as the server writes it. */
interface Tail {
  command?: string;
  elapsed_ms?: number;
  more?: boolean;
  route?: ServerRoute;
}

const ROWS_MARK = ',"rows":[';
/** A row that is longer than this is not scanned again for every piece of it that arrives. */
const PATIENCE_CHARS = 65_536;

const QUOTE = 34;
const BACKSLASH = 92;
const COMMA = 44;
const OPEN_LIST = 91;
const CLOSE_LIST = 93;
const OPEN_OBJECT = 123;
const CLOSE_OBJECT = 125;

export class ResultStream {
  columns: Column[] | null = null;
  private rest = '';
  private inRows = false;
  private inTail = false;
  private waitForChars = 0;
  private cell: Cell = null;

  /** Takes a piece of the document and gives the rows that are whole now. */
  push(piece: string): Cell[][] {
    this.rest += piece;
    if (!this.columns && !this.readHead()) return [];
    if (!this.inRows || this.rest.length < this.waitForChars) return [];
    return this.readRows();
  }

  /** Rows that `push` had not looked at yet, and what follows the rows: null if the document broke off. */
  end(): { rows: Cell[][]; summary: Summary | null } {
    return { rows: this.inRows ? this.readRows() : [], summary: this.readTail() };
  }

  private readTail(): Summary | null {
    if (!this.inTail) return null;
    try {
      const tail = JSON.parse(`{${this.rest.trim().replace(/^,/, '')}`) as Tail;
      return {
        command: tail.command ?? null,
        elapsedMs: tail.elapsed_ms ?? null,
        more: tail.more ?? false,
        route: tail.route ? readRoute(tail.route) : null,
      };
    } catch {
      return null;
    }
  }

  private readHead(): boolean {
    // Quotes within column names are escaped, so the mark cannot be part of one.
    const mark = this.rest.indexOf(ROWS_MARK);
    if (mark < 0) return false;
    const head = JSON.parse(`${this.rest.slice(0, mark)}}`) as { columns: Column[] };
    this.columns = head.columns;
    this.rest = this.rest.slice(mark + ROWS_MARK.length);
    this.inRows = true;
    return true;
  }

  private readRows(): Cell[][] {
    const text = this.rest;
    const rows: Cell[][] = [];
    let at = 0;
    for (;;) {
      at = skipGaps(text, at);
      const code = text.charCodeAt(at);
      if (code === CLOSE_LIST) {
        this.inRows = false;
        this.inTail = true;
        at += 1;
        break;
      }
      if (code !== OPEN_LIST) break;
      const row: Cell[] = [];
      const after = this.readRow(text, at + 1, row);
      if (after < 0) break;
      rows.push(row);
      at = after;
    }
    this.rest = text.slice(at);
    this.waitForChars = this.rest.length > PATIENCE_CHARS && this.inRows ? this.rest.length * 2 : 0;
    return rows;
  }

  /** Reads the cells of a row; -1 if the text ends before the row does. */
  private readRow(text: string, start: number, row: Cell[]): number {
    let at = start;
    for (;;) {
      const code = text.charCodeAt(at);
      if (Number.isNaN(code)) return -1;
      if (code === CLOSE_LIST) return at + 1;
      if (code === COMMA) {
        at += 1;
        continue;
      }
      at = this.readCell(text, at, code);
      if (at < 0) return -1;
      row.push(this.cell);
    }
  }

  private readCell(text: string, at: number, code: number): number {
    if (code === QUOTE) {
      const end = stringEnd(text, at);
      if (end < 0) return -1;
      const inner = text.slice(at + 1, end);
      this.cell = inner.includes('\\') ? (JSON.parse(text.slice(at, end + 1)) as string) : inner;
      return end + 1;
    }
    const end = code === OPEN_LIST || code === OPEN_OBJECT ? nestedEnd(text, at) : literalEnd(text, at);
    if (end < 0) return -1;
    const literal = text.slice(at, end);
    this.cell = literal === 'null' ? null : literal;
    return end;
  }
}

function skipGaps(text: string, start: number): number {
  let at = start;
  while (text[at] === ',' || text[at] === '\n' || text[at] === ' ') at += 1;
  return at;
}

/** The place of the quote that closes the string which begins at `start`. */
export function stringEnd(text: string, start: number): number {
  let quote = text.indexOf('"', start + 1);
  while (quote >= 0) {
    let backslashes = 0;
    while (text.charCodeAt(quote - 1 - backslashes) === BACKSLASH) backslashes += 1;
    if (backslashes % 2 === 0) return quote;
    quote = text.indexOf('"', quote + 1);
  }
  return -1;
}

export function nestedEnd(text: string, start: number): number {
  let depth = 0;
  for (let at = start; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) {
      at = stringEnd(text, at);
      if (at < 0) return -1;
    } else if (code === OPEN_LIST || code === OPEN_OBJECT) depth += 1;
    else if (code === CLOSE_LIST || code === CLOSE_OBJECT) {
      depth -= 1;
      if (depth === 0) return at + 1;
    }
  }
  return -1;
}

function literalEnd(text: string, start: number): number {
  for (let at = start; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === COMMA || code === CLOSE_LIST) return at;
  }
  return -1;
}
