// Values as people read them. Numbers stay texts, so that every digit is the server's.

import type { Cell } from './api';

export function isNumeric(type: string): boolean {
  return /^(smallint|integer|bigint|uint\d+|real|double precision|numeric)/.test(type);
}

export function isTemporal(type: string): boolean {
  return /^(date|timestamp)/.test(type);
}

/** `1234567.5` as `1 234 567.5`, with thin spaces. Exponents and words stay as they are. */
export function groupDigits(text: string): string {
  const parts = /^(-?)(\d+)(\.\d+)?$/.exec(text);
  if (!parts) return text;
  const [, sign = '', whole = '', fraction = ''] = parts;
  return `${sign}${whole.replace(/\B(?=(\d{3})+$)/g, '\u2009')}${fraction}`;
}

export function count(value: Cell | number | undefined): string {
  if (value === null || value === undefined) return '–';
  return groupDigits(String(value));
}

const BYTE_UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

export function bytes(value: Cell | number | undefined): string {
  if (value === null || value === undefined) return '–';
  let size = Number(value);
  let unit = 0;
  while (Math.abs(size) >= 1024 && unit < BYTE_UNITS.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${size >= 100 || unit === 0 ? Math.round(size) : size.toPrecision(3)} ${BYTE_UNITS[unit]}`;
}

export function duration(ms: number | null | undefined): string {
  if (ms === null || ms === undefined || Number.isNaN(ms)) return '–';
  if (ms < 1) return `${Math.round(ms * 1000)} µs`;
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 60) return `${minutes} min ${Math.floor((ms % 60_000) / 1000)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** Times of the server are UTC. */
export function timeOf(value: Cell): number | null {
  if (!value) return null;
  const ms = Date.parse(/[zZ]|[+-]\d\d:?\d\d$/.test(value) ? value : `${value}Z`);
  return Number.isNaN(ms) ? null : ms;
}

export function moment(value: Cell): string {
  const ms = timeOf(value);
  if (ms === null) return value ?? '–';
  const day = new Date(ms).toLocaleDateString('sv');
  const clock = new Date(ms).toLocaleTimeString('sv');
  return day === new Date().toLocaleDateString('sv') ? clock : `${day} ${clock}`;
}

export function factor(slow: number, fast: number): string {
  const times = slow / Math.max(fast, 0.001);
  return times >= 10 ? groupDigits(String(Math.round(times))) : times.toFixed(1);
}

/** How a cell of a list is shown, by the name of its column. */
export function listCell(name: string, type: string, value: Cell): string {
  if (value === null) return '–';
  if (/(^|_)bytes($|_)/.test(name)) return bytes(value);
  if (/_us$/.test(name)) return duration(Number(value) / 1000);
  if (/_ms$/.test(name)) return duration(Number(value));
  if (/^seconds_|_seconds$/.test(name)) return duration(Number(value) * 1000);
  if (/_ratio$|^share_/.test(name)) return `${(Number(value) * 100).toFixed(1)} %`;
  if (name === 'percent') return `${value} %`;
  if (isTemporal(type) && type !== 'date') return moment(value);
  return isNumeric(type) && !/(^|_)(id|job|segment|block|token|lsn)$/.test(name) ? groupDigits(value) : value;
}

export function cut(text: string, length: number): string {
  return text.length > length ? `${text.slice(0, length)}…` : text;
}

export function oneLine(text: string): string {
  return text.replace(/\s+/g, ' ').trim();
}

/** `1 hit`, `2 hits`. */
export function several(value: Cell | number | undefined, word: string, plural = `${word}s`): string {
  return `${count(value)} ${String(value) === '1' ? word : plural}`;
}

/** Null if it is not known. An estimated total may be too low. */
export function percentOf(part: number | null, total: number | null): number | null {
  if (part === null || total === null || total <= 0) return null;
  return Math.min(100, Math.round((part / total) * 100));
}
