// Cuboids of a cube as a graph: an edge leads from a cuboid to each next smaller one within it.

import dagre from '@dagrejs/dagre';
import type { Row } from './api';

export interface Cuboid {
  name: string;
  dimensions: string[];
  cells: number;
  bytes: number;
  /** Of this node. */
  memoryBytes: number;
  hits: number;
  lastUsed: string | null;
  built: boolean;
}

export interface Lattice {
  nodes: { name: string; x: number; y: number }[];
  edges: { from: string; to: string; points: string }[];
  width: number;
  height: number;
}

export const NODE_WIDTH = 188;
export const NODE_HEIGHT = 64;
/** Beyond this nobody can read the drawing, and laying it out takes seconds. */
export const MOST_NODES = 160;

/** `rows` are those of SHOW CUBOIDS. */
export function cuboidsOf(rows: Row[]): Cuboid[] {
  return rows.map((row) => ({
    name: row.cuboid ?? '()',
    dimensions: dimensionsOf(row.cuboid ?? '()'),
    cells: Number(row.rows ?? 0),
    bytes: Number(row.bytes ?? 0),
    memoryBytes: Number(row.memory_bytes ?? 0),
    hits: Number(row.hits ?? 0),
    lastUsed: row.last_used ?? null,
    built: Number(row.bytes ?? 0) > 0,
  }));
}

/** Why no query has read a cuboid; null if one has. That its cube is switched off is no reason to drop it. */
export function idleReason(cuboid: Cuboid, isOff: boolean): 'not built' | 'switched off' | 'not used' | null {
  if (!cuboid.built) return 'not built';
  if (cuboid.hits > 0) return null;
  return isOff ? 'switched off' : 'not used';
}

/** `(a, date_trunc('month', day))` as its dimensions: only commas outside of brackets separate. */
export function dimensionsOf(cuboid: string): string[] {
  const inner = cuboid.slice(1, -1);
  const parts: string[] = [];
  let depth = 0;
  let start = 0;
  for (let at = 0; at < inner.length; at += 1) {
    if (inner[at] === '(') depth += 1;
    else if (inner[at] === ')') depth -= 1;
    else if (inner[at] === ',' && depth === 0) {
      parts.push(inner.slice(start, at).trim());
      start = at + 1;
    }
  }
  const last = inner.slice(start).trim();
  return last ? [...parts, last] : parts;
}

/** The place of each cuboid, and the lines between them. */
export function layOut(names: string[]): Lattice {
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: 'TB', nodesep: 18, ranksep: 44, marginx: 8, marginy: 8 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const name of names) graph.setNode(name, { width: NODE_WIDTH, height: NODE_HEIGHT });
  for (const [from, to] of edgesOf(names)) graph.setEdge(from, to);
  dagre.layout(graph);
  const nodes = names.map((name) => {
    const { x, y } = graph.node(name) as { x: number; y: number };
    return { name, x, y };
  });
  const edges = graph.edges().map(({ v, w }) => {
    const { points } = graph.edge(v, w) as { points: { x: number; y: number }[] };
    return { from: v, to: w, points: points.map(({ x, y }) => `${x.toFixed(1)},${y.toFixed(1)}`).join(' ') };
  });
  const { width = 0, height = 0 } = graph.graph() as { width?: number; height?: number };
  return { nodes, edges, width, height };
}

function edgesOf(names: string[]): [string, string][] {
  const sets = new Map(names.map((name) => [name, new Set(dimensionsOf(name))]));
  const contains = (large: string, small: string) => {
    const [one, other] = [sets.get(large), sets.get(small)];
    return !!one && !!other && other.size < one.size && [...other].every((name) => one.has(name));
  };
  return names.flatMap((large) => {
    const within = names.filter((small) => contains(large, small));
    const next = within.filter((small) => !within.some((middle) => contains(middle, small)));
    return next.map((small): [string, string] => [large, small]);
  });
}
