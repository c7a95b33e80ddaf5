// Shapes of queries that no cube answered, each with a statement of the log that can be run.

import type { Row } from './api';
import { timeOf } from './format';
import { aliasesOf, isAboutServer, isReadOnly, PROFILE_ROWS, wordsOf } from './sql';

/** The last answer tells whether a cube answers the shape by now. */
export const MISSES_SQL = `SELECT m.query, m.misses, m.missed_ms, m.reason, m.last_missed, m.asked, h.answered_from, h.last_asked
FROM system.misses m
LEFT JOIN system.query_history h ON h.query = m.query
ORDER BY m.missed_ms DESC
LIMIT 300`;

export const LOG_SQL = `SELECT query, took_us
FROM system.query_log
WHERE answered_from IS NULL AND status IN ('finished', 'abandoned')
ORDER BY started_at DESC
LIMIT 2000`;

export interface MissedShape {
  /** With ? in the place of values. */
  shape: string;
  misses: number;
  asked: number;
  missedMs: number;
  reason: string;
  lastMissed: string | null;
  /** The cube that answered when it was asked last. */
  answeredFrom: string | null;
  /** The newest statement of the log that has this shape, with its values. */
  statement: string | null;
  /** The longest time of those in the log. */
  slowestMs: number | null;
}

/** `misses` and `log` are rows of the statements above. */
export function missedShapes(misses: Row[], log: Row[]): MissedShape[] {
  const shapes = misses.map(readShape);
  const find = finderOf(shapes);
  for (const { query, took_us } of log) {
    const found = query && isWanted(query) ? find(query) : null;
    if (!found) continue;
    found.statement ??= query ?? null;
    found.slowestMs = Math.max(found.slowestMs ?? 0, Number(took_us ?? 0) / 1000);
  }
  return shapes;
}

function readShape(row: Row): MissedShape {
  const isAnswered = (timeOf(row.last_asked ?? null) ?? 0) > (timeOf(row.last_missed ?? null) ?? 0);
  return {
    shape: row.query ?? '',
    misses: Number(row.misses ?? 0),
    asked: Number(row.asked ?? 0),
    missedMs: Number(row.missed_ms ?? 0),
    reason: row.reason ?? '',
    lastMissed: row.last_missed ?? null,
    answeredFrom: isAnswered ? (row.answered_from ?? null) : null,
    statement: null,
    slowestMs: null,
  };
}

/** A statement has words that its shape has not: functions around aggregations, and parts that are no aggregation. */
const MOST_OTHER_WORDS = 4;

/**
 * Finds the shape of a statement. The server writes shapes anew, with full names, and does not tell them of statements
 * in the log; but each word of a shape is in its statements, so the shape with most words among those is theirs.
 */
export function finderOf(shapes: MissedShape[]): (sql: string) => MissedShape | null {
  const known = shapes.map((shape) => ({ shape, words: wordsOf(shape.shape) }));
  known.sort((a, b) => b.words.size - a.words.size);
  return (sql) => {
    const words = wordsOf(sql);
    const found = known.find((one) => [...one.words].every((word) => words.has(word)));
    if (!found) return null;
    const aliases = aliasesOf(sql);
    const others = [...words].filter((word) => !found.words.has(word) && !aliases.has(word));
    return others.length <= MOST_OTHER_WORDS ? found.shape : null;
  };
}

/** No statements about the server, and no profiles of this console. */
function isWanted(sql: string): boolean {
  return isReadOnly(sql) && !isAboutServer(sql) && !sql.includes(PROFILE_ROWS);
}
