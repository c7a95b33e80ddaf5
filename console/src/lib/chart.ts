// Chooses a chart for a result and describes it to ECharts.

import type { EChartsCoreOption } from 'echarts/core';
import type { Cell, Column } from './api';
import { cut, isNumeric, isTemporal } from './format';

export type ChartKind = 'bar' | 'line' | 'pie' | 'scatter';

export interface ChartWish {
  kind: ChartKind;
  x: number;
  values: number[];
}

/** More points than this make no better picture, and a slow one. */
export const MOST_POINTS: Record<ChartKind, number> = { bar: 1000, line: 10_000, pie: 30, scatter: 10_000 };

/** Null: there is no number to draw. */
export function defaultChart(columns: Column[], rows: Cell[][]): ChartWish | null {
  const numbers = indexesOf(columns, (column) => isNumeric(column.type));
  const dimensions = indexesOf(columns, (column) => !isNumeric(column.type));
  if (numbers.length === 0 || rows.length === 0) return null;
  const time = columns.findIndex((column, at) => isTemporal(column.type) || (at === 0 && looksLikeYears(rows, column)));
  if (time >= 0 && numbers.some((at) => at !== time)) {
    return { kind: 'line', x: time, values: numbers.filter((at) => at !== time).slice(0, 4) };
  }
  const name = dimensions[0];
  if (name !== undefined) return { kind: 'bar', x: name, values: numbers.slice(0, 3) };
  if (numbers.length === 1) return { kind: 'bar', x: -1, values: numbers };
  const kind = rows.length > 50 ? 'scatter' : 'bar';
  return { kind, x: numbers[0] ?? 0, values: numbers.slice(1, 4) };
}

function indexesOf(columns: Column[], wanted: (column: Column) => boolean): number[] {
  return columns.flatMap((column, at) => (wanted(column) ? [at] : []));
}

function looksLikeYears(rows: Cell[][], column: Column): boolean {
  const isYear = (cell: Cell | undefined) => /^(1[89]|20|21)\d\d((0[1-9]|1[0-2])([0-3]\d)?)?$/.test(cell ?? '');
  return /int|numeric/.test(column.type) && rows.length > 1 && rows.slice(0, 50).every((row) => isYear(row[0]));
}

export interface Look {
  text: string;
  line: string;
  series: string[];
}

export function chartOption(wish: ChartWish, columns: Column[], rows: Cell[][], look: Look): EChartsCoreOption {
  const shown = rows.slice(0, MOST_POINTS[wish.kind]);
  const name = (row: Cell[], at: number) => (wish.x < 0 ? String(at + 1) : cut(row[wish.x] ?? 'null', 40));
  const number = (cell: Cell | undefined) => (cell === null || cell === undefined ? null : Number(cell));
  const base = {
    animation: false,
    color: look.series,
    textStyle: { color: look.text, fontFamily: 'system-ui, sans-serif' },
    tooltip: { trigger: wish.kind === 'bar' || wish.kind === 'line' ? 'axis' : 'item', confine: true },
    legend: { textStyle: { color: look.text }, type: 'scroll', top: 0 },
    grid: { left: 16, right: 24, top: 40, bottom: 16, containLabel: true },
  };
  if (wish.kind === 'pie') {
    const at = wish.values[0] ?? 0;
    const data = shown.map((row, index) => ({ name: name(row, index), value: number(row[at]) }));
    return { ...base, series: [{ type: 'pie', radius: ['35%', '70%'], label: { color: look.text }, data }] };
  }
  const axis = { axisLine: { lineStyle: { color: look.line } }, splitLine: { lineStyle: { color: look.line } } };
  const xIsNumber = wish.kind === 'scatter' && wish.x >= 0 && isNumeric(columns[wish.x]?.type ?? '');
  const xAxis = xIsNumber
    ? { type: 'value', scale: true, name: columns[wish.x]?.name, ...axis }
    : { type: 'category', data: shown.map(name), ...axis };
  const point = (row: Cell[], at: number) => (xIsNumber ? [number(row[wish.x]), number(row[at])] : number(row[at]));
  const series = wish.values.map((at) => ({
    type: wish.kind,
    name: columns[at]?.name,
    data: shown.map((row) => point(row, at)),
    showSymbol: shown.length < 60,
    symbolSize: wish.kind === 'scatter' ? 7 : 5,
    barMaxWidth: 48,
  }));
  return { ...base, xAxis, yAxis: { type: 'value', scale: wish.kind !== 'bar', ...axis }, series };
}
