// Columns and number of rows of a Parquet file, from its footer: values are compressed, and not read here.
//
// Source: parquet.thrift of the Parquet format, and Thrift's compact protocol.

export interface ParquetColumns {
  names: string[];
  /** Types in SQL; empty for structs, maps and lists of them. */
  types: string[];
  rows: number;
}

/** Of the length of the footer, and of the mark at the end. */
const TAIL_BYTES = 8;
/** Ten thousand columns in a thousand row groups have longer ones, and are read by no page. */
const MAX_FOOTER_BYTES = 64 << 20;
const DAMAGED = 'the footer of the Parquet file is damaged';

export async function readParquetFooter(file: Blob): Promise<ParquetColumns> {
  const tail = new DataView(await file.slice(Math.max(0, file.size - TAIL_BYTES)).arrayBuffer());
  const mark = tail.byteLength === TAIL_BYTES ? tail.getUint32(4) : 0;
  if (mark === 0x50415245) throw new Error('the Parquet file is encrypted');
  if (mark !== 0x50415231) throw new Error('the Parquet file is cut off: it does not end with PAR1');
  const length = tail.getUint32(0, true);
  if (length > Math.min(file.size - TAIL_BYTES, MAX_FOOTER_BYTES)) throw new Error(DAMAGED);
  const footer = await file.slice(file.size - TAIL_BYTES - length, file.size - TAIL_BYTES).arrayBuffer();
  return columnsOf(new Compact(new Uint8Array(footer)).struct(FILE.rows));
}

type Value = number | boolean | Uint8Array | Value[] | Struct;
type Struct = Map<number, Value>;

/** Numbers of fields. */
const FILE = { schema: 2, rows: 3 };
const ELEMENT = { type: 1, length: 2, repetition: 3, name: 4, children: 5, converted: 6, scale: 7, precision: 8, logical: 10 };
const REPEATED = 2;
const LIST = 3;

/** Reads values of Thrift's compact protocol. */
class Compact {
  private at = 0;

  constructor(private readonly bytes: Uint8Array) {}

  /** Its fields by their numbers, as far as the field `last`. */
  struct(last = Number.POSITIVE_INFINITY): Struct {
    const fields: Struct = new Map();
    for (let id = 0; id < last; ) {
      const head = this.byte();
      if (head === 0) break;
      id = head >> 4 ? id + (head >> 4) : this.signed();
      const type = head & 15;
      fields.set(id, type <= 2 ? type === 1 : this.value(type));
    }
    return fields;
  }

  private value(type: number): Value {
    switch (type) {
      case 1:
      case 2:
        return this.byte() === 1;
      case 3:
        return this.byte();
      case 4:
      case 5:
      case 6:
        return this.signed();
      case 7:
        return this.take(8);
      case 8:
        return this.take(this.unsigned());
      case 9:
      case 10:
        return this.list();
      case 12:
        return this.struct();
      default:
        throw new Error(DAMAGED);
    }
  }

  private list(): Value[] {
    const head = this.byte();
    const length = head >> 4 === 15 ? this.unsigned() : head >> 4;
    const values: Value[] = [];
    for (let at = 0; at < length; at += 1) values.push(this.value(head & 15));
    return values;
  }

  private signed(): number {
    const value = this.unsigned();
    return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
  }

  private unsigned(): number {
    let [value, scale] = [0, 1];
    for (;;) {
      const byte = this.byte();
      value += (byte & 127) * scale;
      if (byte < 128) return value;
      scale *= 128;
    }
  }

  private byte(): number {
    return this.take(1)[0] ?? 0;
  }

  private take(length: number): Uint8Array {
    if (this.at + length > this.bytes.length) throw new Error('the footer of the Parquet file is cut off');
    this.at += length;
    return this.bytes.subarray(this.at - length, this.at);
  }
}

function columnsOf(file: Struct): ParquetColumns {
  const elements = (file.get(FILE.schema) as Struct[] | undefined) ?? [];
  const columns: { name: string; type: string }[] = [];
  // The first element is the root.
  for (let at = 1; at < elements.length; at = behind(elements, at)) {
    columns.push({ name: nameOf(elements[at]), type: typeAt(elements, at) });
  }
  return {
    names: columns.map(({ name }) => name),
    types: columns.map(({ type }) => type),
    rows: number(file, FILE.rows) ?? 0,
  };
}

/** The place behind an element and all that is in it. */
function behind(elements: Struct[], start: number): number {
  let at = start + 1;
  const children = number(elements[start], ELEMENT.children) ?? 0;
  for (let child = 0; child < children && at < elements.length; child += 1) at = behind(elements, at);
  return at;
}

function nameOf(element: Struct | undefined): string {
  const name = element?.get(ELEMENT.name);
  return name instanceof Uint8Array ? new TextDecoder().decode(name) : '';
}

function number(element: Struct | undefined, field: number): number | null {
  const value = element?.get(field);
  return typeof value === 'number' ? value : null;
}

function typeAt(elements: Struct[], at: number): string {
  const element = elements[at];
  const isGroup = (number(element, ELEMENT.children) ?? 0) > 0;
  if (!isGroup) return arrayIf(number(element, ELEMENT.repetition) === REPEATED, leafType(element));
  const isList = number(element, ELEMENT.converted) === LIST || logicalOf(element).kind === LIST;
  if (!isList) return '';
  // A list is a group with a repeated group, or a repeated element of old writers, with the elements.
  const inner = (number(elements[at + 1], ELEMENT.children) ?? 0) === 1 ? at + 2 : at + 1;
  const isLeaf = (number(elements[inner], ELEMENT.children) ?? 0) === 0;
  return isLeaf ? arrayIf(true, leafType(elements[inner])) : '';
}

function arrayIf(isArray: boolean, type: string): string {
  return isArray && type !== '' ? `${type}[]` : type;
}

function logicalOf(element: Struct | undefined): { kind: number | null; of: Struct } {
  const logical = element?.get(ELEMENT.logical);
  const [kind, of] = logical instanceof Map ? ([...logical][0] ?? []) : [];
  return { kind: kind ?? null, of: of instanceof Map ? of : new Map() };
}

/** By number of the logical type; that of the older, converted type is in brackets. */
function leafType(element: Struct | undefined): string {
  const { kind, of } = logicalOf(element);
  const converted = number(element, ELEMENT.converted);
  if (kind === 1 || kind === 4 || kind === 12 || [0, 4, 19].includes(converted ?? -1)) return 'TEXT';
  if (kind === 5 || converted === 5) {
    const digits = number(of, 2) ?? number(element, ELEMENT.precision) ?? 38;
    return `NUMERIC(${digits}, ${number(of, 1) ?? number(element, ELEMENT.scale) ?? 0})`;
  }
  if (kind === 6 || converted === 6) return 'DATE';
  if (kind === 7 || converted === 7 || converted === 8) return 'TIME';
  if (kind === 8) return of.get(1) === true ? 'TIMESTAMPTZ' : 'TIMESTAMP';
  if (converted === 9 || converted === 10) return 'TIMESTAMPTZ';
  if (kind === 14) return 'UUID';
  if (kind === 15) return 'REAL';
  if (kind === 10) return integerType(number(of, 1) ?? 64, of.get(2) !== false);
  // UINT_8 … UINT_64 are 11 to 14, INT_8 … INT_64 are 15 to 18.
  if (converted !== null && converted >= 11 && converted <= 18) {
    return integerType(8 << ((converted - 11) % 4), converted >= 15);
  }
  return PHYSICAL[number(element, ELEMENT.type) ?? -1] ?? '';
}

const PHYSICAL = ['BOOLEAN', 'INT', 'BIGINT', 'TIMESTAMP', 'REAL', 'DOUBLE PRECISION', 'BYTEA', 'BYTEA'];

/** Numbers without a sign need the next wider type. */
function integerType(bits: number, isSigned: boolean): string {
  const needed = isSigned ? bits : bits * 2;
  if (needed <= 16) return 'SMALLINT';
  if (needed <= 32) return 'INT';
  return needed <= 64 ? 'BIGINT' : 'NUMERIC(20, 0)';
}
