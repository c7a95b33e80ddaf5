// From a query that no cube answers to a cube that does: propose, create, build, measure.

import { type ApiError, asApiError, query, type Row, rows } from './api';
import type { Route } from './route';
import { schema } from './schema.svelte';
import { createdCube, qualified, shortName } from './sql';
import { runWork } from './work.svelte';

export type Step = 'idle' | 'asking' | 'proposed' | 'creating' | 'building' | 'measuring' | 'done';

/** More rows are not needed to know how long the answer takes. */
const MEASURED_ROWS = 10_000;

export interface Scope {
  label: string;
  sql: string;
}

/** What RECOMMEND CUBE may look at for this query: its tables, and their schemas. */
export function scopesOf(sql: string): Scope[] {
  const words = new Set(
    (sql.toLowerCase().match(/"(?:[^"]|"")*"|[a-z_][\w$]*/g) ?? []).map((word) => word.replaceAll('"', '')),
  );
  const mine = schema.tables.filter((table) => table.schema !== 'system');
  const named = mine.filter((table) => words.has(table.name.toLowerCase()));
  const schemas = [...new Set((named.length > 0 ? named : mine).map((table) => table.schema))];
  return [
    ...named.map((table) => ({
      label: `queries of table ${table.schema}.${table.name}`,
      sql: `RECOMMEND CUBE FOR TABLE ${qualified(table.schema, table.name)}`,
    })),
    ...schemas.map((name) => ({
      label: `all queries of schema ${name}`,
      sql: `RECOMMEND CUBE FOR SCHEMA ${shortName(name)}`,
    })),
  ];
}

export class Adviser {
  step = $state<Step>('idle');
  proposals = $state.raw<Row[]>([]);
  error = $state.raw<ApiError | null>(null);
  /** `schema.name` of the cube that is made. */
  cube = $state<string | null>(null);
  beforeMs = $state<number | null>(null);
  afterMs = $state<number | null>(null);
  route = $state.raw<Route | null>(null);

  /** `statement` is null if there is none that can be run to measure what is gained. */
  constructor(private readonly statement: string | null) {}

  async recommend(statement: string): Promise<void> {
    await this.attempt(async () => {
      this.step = 'asking';
      this.proposals = await rows(statement);
      this.step = 'proposed';
    }, 'idle');
  }

  /** Creates the cube and builds it; the query is measured before and after. */
  async make(statement: string): Promise<void> {
    await this.attempt(async () => {
      this.step = 'creating';
      const name = createdCube(statement);
      if (!name) throw new Error('the proposed statement names no cube');
      this.beforeMs = await this.measure();
      await query(statement);
      this.cube = `${name.schema}.${name.name}`;
      this.step = 'building';
      const work = await runWork(`BUILD CUBE ${qualified(name.schema, name.name)}`);
      if (work.error) throw work.error;
      this.step = 'measuring';
      // The first answer may still read files; the second is what follows.
      await this.measure();
      this.afterMs = await this.measure();
      this.step = 'done';
    }, 'proposed');
  }

  private async measure(): Promise<number | null> {
    if (this.statement === null) return null;
    const result = await query(this.statement, { maxRows: MEASURED_ROWS, withRoute: true });
    this.route = result.route;
    return result.elapsedMs ?? result.tookMs;
  }

  private async attempt(work: () => Promise<void>, otherwise: Step): Promise<void> {
    this.error = null;
    try {
      await work();
    } catch (failure) {
      this.error = asApiError(failure);
      this.step = otherwise;
    }
  }
}
