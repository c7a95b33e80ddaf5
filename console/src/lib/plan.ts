// Plans of EXPLAIN as trees: two spaces of indentation are one level.

export interface PlanNode {
  operator: string;
  detail: string;
  /** Processor time of EXPLAIN ANALYZE, over all partitions. */
  computeMs: number | null;
  outputRows: string | null;
  children: PlanNode[];
}

export function parsePlan(text: string): PlanNode[] {
  const roots: PlanNode[] = [];
  const path: { depth: number; node: PlanNode }[] = [];
  for (const line of text.split('\n')) {
    if (!line.trim()) continue;
    const depth = line.length - line.trimStart().length;
    const node = parseLine(line.trim());
    while (path.length > 0 && (path.at(-1)?.depth ?? 0) >= depth) path.pop();
    const parent = path.at(-1)?.node;
    (parent ? parent.children : roots).push(node);
    path.push({ depth, node });
  }
  return roots;
}

function parseLine(line: string): PlanNode {
  const split = /^([\w ]+?)(?::\s*|\s*$)(.*)$/s.exec(line);
  const operator = split?.[1] ?? line;
  const rest = split?.[2] ?? '';
  const metrics = /,? ?metrics=\[(.*)\]$/s.exec(rest);
  const detail = metrics ? rest.slice(0, metrics.index) : rest;
  const time = /elapsed_compute=([\d.]+)(ns|µs|us|ms|s)/.exec(metrics?.[1] ?? '');
  const output = /output_rows=([\d.]+ ?[KMB]?)/.exec(metrics?.[1] ?? '');
  return {
    operator,
    detail,
    computeMs: time ? Number(time[1]) * (MS_OF[time[2] ?? ''] ?? 1) : null,
    outputRows: output?.[1] ?? null,
    children: [],
  };
}

const MS_OF: Record<string, number> = { ns: 1e-6, µs: 1e-3, us: 1e-3, ms: 1, s: 1000 };

/** The longest time of a single operator, to draw the others beside it. */
export function longestMs(nodes: PlanNode[]): number {
  return nodes.reduce((most, node) => Math.max(most, node.computeMs ?? 0, longestMs(node.children)), 0);
}
