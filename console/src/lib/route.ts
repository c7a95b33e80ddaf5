// How the server made an answer: which cube answered, and what that took.

import { type QueryOptions, rows } from './api';

/** `route` of an answer, as the server writes it. */
export interface ServerRoute {
  query: number;
  ready_plan: boolean;
  result_cache: boolean;
  aggregations: ServerAggregation[];
  nodes: string | null;
  phases_us: Record<string, number>;
  bytes_read: BytesRead | null;
  peak_memory_bytes: number;
}

interface ServerAggregation {
  cube: string | null;
  cuboids?: string[][];
  segments?: number | null;
  joined?: string[];
  from_tables?: string | null;
  lacking?: string | null;
  live?: boolean;
  estimated_rows?: number;
  other_cubes: Miss[];
}

/** A cube that does not answer, and the first reason. */
export interface Miss {
  cube: string;
  reason: string;
}

/** Bytes of remote files, by where they were found. */
export interface BytesRead {
  memory: number;
  disk: number;
  store: number;
}

/** How one aggregation of a query is answered. */
export interface RouteBlock {
  /** Null: the tables answer. */
  cube: string | null;
  /** Dimensions of the cuboids that are read, as `(a, b)`. */
  cuboids: string[];
  segments: number | null;
  joined: string[];
  estimatedRows: number | null;
  /** What is read from the tables because no segment holds it. */
  raw: string | null;
  /** What a build would add. */
  lacking: string | null;
  /** The cube reads a live table, so that the next statement may be answered in another way. */
  isLive: boolean;
  misses: Miss[];
}

export interface Route {
  blocks: RouteBlock[];
  /** There is an aggregation that no cube answers. */
  missed: boolean;
  /** Which nodes took part, or why one did it all; null where there is one. */
  nodes: string | null;
  /** The plan was there already. Its blocks have the reasons that were found when it was made. */
  isReadyPlan: boolean;
  isFromResultCache: boolean;
  phases: { name: string; us: number }[];
  bytesRead: BytesRead | null;
  peakMemoryBytes: number;
}

export function readRoute(route: ServerRoute): Route {
  return {
    blocks: route.aggregations.map(readBlock),
    missed: route.aggregations.some(({ cube }) => cube === null),
    nodes: route.nodes,
    isReadyPlan: route.ready_plan,
    isFromResultCache: route.result_cache,
    phases: Object.entries(route.phases_us).map(([name, us]) => ({ name, us })),
    bytesRead: route.bytes_read,
    peakMemoryBytes: route.peak_memory_bytes,
  };
}

function readBlock(aggregation: ServerAggregation): RouteBlock {
  return {
    cube: aggregation.cube,
    cuboids: (aggregation.cuboids ?? []).map((dimensions) => `(${dimensions.join(', ')})`),
    segments: aggregation.segments ?? null,
    joined: aggregation.joined ?? [],
    estimatedRows: aggregation.estimated_rows ?? null,
    raw: aggregation.from_tables ?? null,
    lacking: aggregation.lacking ?? null,
    isLive: aggregation.live ?? false,
    misses: aggregation.other_cubes,
  };
}

/** What EXPLAIN tells of the cubes, as text: all reasons, also of a query whose ready plan has few. */
export async function explainCubes(sql: string, options: QueryOptions = {}): Promise<string | null> {
  const explained = await rows(`EXPLAIN ${sql}`, options);
  return explained.find((line) => line.plan_type === 'cubes')?.plan ?? null;
}
