// Types of columns, and names for them, guessed from the first rows of a file.

import type { Field } from './delimited';

/** Types to choose from. Any other may be typed. */
export const TYPES = [
  'TEXT',
  'BIGINT',
  'INT',
  'DOUBLE PRECISION',
  'NUMERIC(18, 2)',
  'BOOLEAN',
  'DATE',
  'TIMESTAMP',
  'TIMESTAMPTZ',
  'TIME',
  'UUID',
  'BYTEA',
  'TEXT[]',
  'BIGINT[]',
];

const DAY = String.raw`\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])`;
const CLOCK = String.raw`(?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d{1,9})?)?`;

/** The first type that every value has. Whole numbers with leading zeros are codes, and stay texts. */
const GUESSES: { type: string; pattern: RegExp }[] = [
  { type: 'BOOLEAN', pattern: /^(?:true|false)$/i },
  { type: 'BIGINT', pattern: /^(?:0|-?[1-9]\d{0,17})$/ },
  { type: 'NUMERIC(38, 0)', pattern: /^(?:0|-?[1-9]\d{0,37})$/ },
  { type: 'DOUBLE PRECISION', pattern: /^-?(?:(?:0|[1-9]\d*)(?:\.\d*)?|\.\d+)(?:e[+-]?\d{1,3})?$/i },
  { type: 'DATE', pattern: new RegExp(`^${DAY}$`) },
  { type: 'TIMESTAMP', pattern: new RegExp(`^${DAY}(?:[ T]${CLOCK})?$`) },
  { type: 'TIMESTAMPTZ', pattern: new RegExp(String.raw`^${DAY}[ T]${CLOCK} ?(?:Z|[+-]\d\d(?::?\d\d)?)$`, 'i') },
  { type: 'TIME', pattern: new RegExp(String.raw`^(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?$`) },
  { type: 'UUID', pattern: /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i },
];

/** The type of a column of text: TEXT unless every value has another. */
export function guessType(values: Field[]): string {
  const given = values.filter((value) => value !== null);
  if (given.length === 0) return 'TEXT';
  return GUESSES.find(({ pattern }) => given.every((value) => pattern.test(value)))?.type ?? 'TEXT';
}

/** Whether it is no number, date, time or truth value. */
export function isPlainText(value: string): boolean {
  return guessType([value]) === 'TEXT';
}

/** A name that needs no quotes where it is written, each once: `Order ID` as `order_id`. */
export function tidyNames(names: string[]): string[] {
  const taken = new Set<string>();
  return names.map((name, at) => {
    const plain = name
      .trim()
      .toLowerCase()
      .replace(/[^\p{L}\p{N}_]+/gu, '_')
      .replace(/^_+|_+$/g, '');
    const first = plain === '' ? `column_${at + 1}` : /^\p{N}/u.test(plain) ? `_${plain}` : plain;
    let free = first;
    for (let turn = 2; taken.has(free); turn += 1) free = `${first}_${turn}`;
    taken.add(free);
    return free;
  });
}

/** Whether it looks like a key: named as one, with a different value in each of the first rows. */
export function looksLikeKey(name: string, type: string, values: Field[]): boolean {
  const isNamed = /^(?:id|key|uuid)$|_(?:id|key|uuid|no)$/.test(name);
  const mayBe = /^(?:BIGINT|INT|TEXT|UUID)$/.test(type);
  return isNamed && mayBe && values.length > 0 && !values.includes(null) && new Set(values).size === values.length;
}
