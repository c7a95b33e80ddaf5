// Cuts a file into parts of whole rows, each of which is loaded as one statement under a label of its own, and writes them as the server
// reads them.
//
// A file is cut at the same places whenever it is read, so that the labels of its parts are the same, too: what was loaded before is
// not loaded again. A part is what is held in memory, with the piece that the browser reads ahead.

import { ApiError } from './api';
import { bytesOf, type ChosenFile, type Encoding, readable } from './chosen-file';
import { csvRow, type Dialect, rowsOf } from './delimited';
import { renamed } from './json-lines';

/** How the rows of a file become those of a table. */
export interface LoadPlan {
  file: Blob;
  kind: ChosenFile['kind'];
  isGzip: boolean;
  encoding: Encoding;
  dialect: Dialect;
  headBytes: number;
  headLines: number;
  /** Names of the columns in the file. */
  sources: string[];
  /** Their names in the table, in the same order; null if they are left out. */
  targets: (string | null)[];
}

/** A range of a file's bytes, decompressed, that holds whole rows. */
export interface Part {
  from: number;
  to: number;
  /** Of its first row in the file. */
  firstLine: number;
  pieces: Blob | Uint8Array<ArrayBuffer>[];
}

/** What is sent to the server for a part. */
export interface PartBody {
  body: Blob;
  type: string;
  /** To be added to a line of the body for the line of the file. */
  linesBefore: number;
  /** Rows that cannot be written with some columns left out, because they have not as many fields as there are columns. */
  misfits: { line: number; reason: string }[];
}

/** Many small parts would take the server longer, and large ones tell progress seldom. */
export const PART_BYTES = 4 << 20;
/** As the server has it. */
const MAX_ROW_BYTES = 64 << 20;

const QUOTE = 34;
const LINE_END = 10;

/** The parts of a file, each when it is asked for. `onRead` is told the bytes of the file that were read so far. */
export async function* partsOf(plan: LoadPlan, onRead: (bytes: number) => void = () => undefined): AsyncGenerator<Part> {
  if (plan.kind === 'parquet') {
    yield { from: 0, to: plan.file.size, firstLine: 1, pieces: plan.file };
    return;
  }
  const reader = bytesOf(counted(plan.file, onRead), plan.isGzip);
  const cutter = new Cutter(plan.kind === 'delimited' && plan.dialect.quotes, plan.headBytes, plan.headLines + 1);
  try {
    let skip = plan.headBytes;
    for (;;) {
      const { done, value } = await readable(reader.read());
      if (done) break;
      const left = value.subarray(Math.min(skip, value.length));
      skip -= value.length - left.length;
      yield* cutter.push(left);
    }
    yield* cutter.end();
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

/** The same bytes; how many were read is told on the way. */
function counted(file: Blob, onRead: (bytes: number) => void): Pick<Blob, 'stream'> {
  let bytes = 0;
  const count = () =>
    new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
      transform: (piece, out) => {
        bytes += piece.length;
        onRead(bytes);
        out.enqueue(piece);
      },
    });
  return { stream: () => file.stream().pipeThrough(count()) };
}

/** Gathers bytes until a part is full, and cuts behind the row that fills it, however the bytes come. */
class Cutter {
  private pieces: Uint8Array<ArrayBuffer>[] = [];
  private length = 0;
  private lines = 0;
  private isQuoted = false;

  constructor(
    private readonly quotes: boolean,
    private from: number,
    private firstLine: number,
  ) {}

  *push(bytes: Uint8Array<ArrayBuffer>): Generator<Part> {
    let start = 0;
    for (let at = 0; at < bytes.length; at += 1) {
      const byte = bytes[at];
      if (byte === QUOTE && this.quotes) this.isQuoted = !this.isQuoted;
      if (byte !== LINE_END) continue;
      this.lines += 1;
      if (this.isQuoted || this.length + at + 1 - start < PART_BYTES) continue;
      this.take(bytes.subarray(start, at + 1));
      start = at + 1;
      yield this.give();
    }
    this.take(bytes.subarray(start));
    if (this.length > PART_BYTES + MAX_ROW_BYTES) {
      const message = `a row behind line ${this.firstLine} has more than ${MAX_ROW_BYTES >> 20} MiB`;
      throw new ApiError('limit_exceeded', message, 'look for a quote that is not closed, or read it without quotes');
    }
  }

  *end(): Generator<Part> {
    if (this.length > 0) yield this.give();
  }

  private take(bytes: Uint8Array<ArrayBuffer>): void {
    if (bytes.length > 0) this.pieces.push(bytes);
    this.length += bytes.length;
  }

  private give(): Part {
    const { from, firstLine, pieces } = this;
    this.from += this.length;
    this.firstLine += this.lines;
    [this.pieces, this.length, this.lines] = [[], 0, 0];
    return { from, to: this.from, firstLine, pieces };
  }
}

/** The label of a part: its range is in it, so that no other part of the file has the same. */
export function partLabel(label: string, { from, to }: Part): string {
  return `${label}:${from}-${to}`;
}

/** Lines in an error of the server are those of the body. */
export function withFileLine(message: string, linesBefore: number): string {
  const place = /^((?:more than \d+ rows cannot be read; the last at )?line )(\d+)/;
  return message.replace(place, (_, words: string, line: string) => `${words}${Number(line) + linesBefore}`);
}

export function bodyOf(part: Part, plan: LoadPlan): PartBody {
  if (part.pieces instanceof Blob) {
    return { body: part.pieces, type: 'application/vnd.apache.parquet', linesBefore: 0, misfits: [] };
  }
  return plan.kind === 'json' ? jsonBody(part.pieces, part, plan) : csvBody(part.pieces, part, plan);
}

function jsonBody(pieces: Uint8Array<ArrayBuffer>[], part: Part, plan: LoadPlan): PartBody {
  const type = 'application/x-ndjson';
  const linesBefore = part.firstLine - 1;
  const isSame = plan.sources.every((source, at) => source === plan.targets[at]);
  if (isSame && plan.encoding === 'utf-8') return { body: new Blob(pieces), type, linesBefore, misfits: [] };
  const names = new Map(plan.sources.map((source, at) => [source, plan.targets[at] ?? null]));
  const lines = textOf(pieces, part, plan.encoding).split('\n');
  return { body: new Blob([lines.map((line) => renamed(line, names)).join('\n')]), type, linesBefore, misfits: [] };
}

function csvBody(pieces: Uint8Array<ArrayBuffer>[], part: Part, plan: LoadPlan): PartBody {
  const { dialect, encoding, targets } = plan;
  const type = 'text/csv';
  // The body has a line with the names of columns before its rows.
  const linesBefore = part.firstLine - 2;
  const head = csvRow(targets.filter((target) => target !== null));
  const isCsv = dialect.separator === ',' && dialect.quotes && encoding === 'utf-8' && !targets.includes(null);
  if (isCsv) return { body: new Blob([head, ...pieces]), type, linesBefore, misfits: [] };
  const { text, misfits } = asCsv(textOf(pieces, part, encoding), part.firstLine, plan);
  return { body: new Blob([head, text]), type, linesBefore, misfits };
}

/** Rows as CSV with the chosen columns. Each begins on the line on which it began. */
function asCsv(text: string, firstLine: number, { dialect, targets }: LoadPlan): Pick<PartBody, 'misfits'> & { text: string } {
  const kept = targets.flatMap((target, at) => (target === null ? [] : [at]));
  const isAll = kept.length === targets.length;
  const misfits: PartBody['misfits'] = [];
  const lines: string[] = [];
  let next = firstLine;
  for (const { line, fields } of rowsOf(text, dialect, true, firstLine)) {
    if (!isAll && fields.length !== targets.length) {
      misfits.push({ line, reason: `${fields.length} fields, not ${targets.length}` });
      continue;
    }
    const row = csvRow(isAll ? fields : kept.map((at) => fields[at] ?? null));
    lines.push('\n'.repeat(line - next), row);
    next = line + row.split('\n').length - 1;
  }
  return { text: lines.join(''), misfits };
}

function textOf(pieces: Uint8Array<ArrayBuffer>[], part: Part, encoding: Encoding): string {
  // The mark of the byte order at the beginning of the file is no part of any part.
  const decoder = new TextDecoder(encoding, { fatal: true, ignoreBOM: true });
  try {
    return pieces.map((piece) => decoder.decode(piece, { stream: true })).join('') + decoder.decode();
  } catch {
    const message = `text behind line ${part.firstLine} is not in ${encoding === 'utf-8' ? 'UTF-8' : encoding}`;
    throw new ApiError('unreadable_file', message, 'choose another encoding, or save the file in UTF-8');
  }
}
