// Loads a file into a live table, one part after the other, whatever screen is open.

import { ApiError, asApiError, loadRows, query, type Reject } from './api';
import { bodyOf, type LoadPlan, type Part, partLabel, partsOf, withFileLine } from './load-parts';
import { percentOf } from './format';
import { place } from './router.svelte';
import { loadSchema } from './schema.svelte';
import { dismiss, track } from './work.svelte';

export interface LoadTarget {
  /** As it is written in SQL. */
  table: string;
  /** The statement that makes the table, if it is new. */
  create: string | null;
  /** Parts of the file that were loaded under this label are not loaded again. */
  label: string;
  /** Rows that may be left out. */
  maxRejects: number;
}

/** More are counted only. */
const SHOWN_REJECTS = 100;
const SCREEN = { href: '#/load-file', label: 'Progress' };

export class FileLoad {
  step = $state<'idle' | 'creating' | 'loading' | 'done' | 'failed'>('idle');
  error = $state.raw<ApiError | null>(null);
  table = $state('');
  /** The table that was made for this load. */
  created = $state<string | null>(null);
  bytesDone = $state(0);
  bytesTotal = $state(0);
  /** Rows that this load has written. */
  rows = $state(0);
  /** Rows of parts that a load of the same label had written before. */
  rowsBefore = $state(0);
  rejected = $state(0);
  rejects = $state.raw<Reject[]>([]);
  startedAt = $state(0);
  tookMs = $state(0);
  isRunning = $derived(this.step === 'creating' || this.step === 'loading');
  percent = $derived(percentOf(this.bytesDone, this.bytesTotal));
  private createdBy: string | null = null;
  private settings = '';
  /** Parts before this place of the file are done. */
  private doneTo = 0;
  private abort = new AbortController();

  /** Begins a load, or goes on with the one that has failed if nothing else is asked for. */
  async start(plan: LoadPlan, target: LoadTarget): Promise<void> {
    if (this.isRunning) return;
    const settings = JSON.stringify([plan, plan.file.size, target.table, target.label]);
    if (this.step !== 'failed' || settings !== this.settings) this.reset();
    this.settings = settings;
    this.table = target.table;
    this.bytesTotal = plan.file.size;
    this.abort = new AbortController();
    this.error = null;
    this.startedAt = Date.now();
    const work = await track(`load a file into ${target.table}`, SCREEN, () => this.run(plan, target));
    this.tookMs = Date.now() - this.startedAt;
    this.error = work.error;
    this.step = work.error ? 'failed' : 'done';
    // This screen tells the same, and who cancels knows it.
    if (place().path[0] === 'load-file' || work.error?.code === 'cancelled') dismiss(work.id);
  }

  cancel(): void {
    this.abort.abort();
  }

  /** Another file is chosen, or the table that was made for this one is dropped. */
  clear(): void {
    this.created = null;
    this.createdBy = null;
    this.step = 'idle';
    this.reset();
  }

  private reset(): void {
    this.doneTo = 0;
    this.bytesDone = 0;
    this.rows = 0;
    this.rowsBefore = 0;
    this.rejected = 0;
    this.rejects = [];
    this.error = null;
  }

  private async run(plan: LoadPlan, target: LoadTarget): Promise<void> {
    if (target.create !== null && target.create !== this.createdBy) {
      // Another table has no part of the file yet.
      this.reset();
      this.step = 'creating';
      await query(target.create, { signal: this.abort.signal });
      this.created = target.table;
      this.createdBy = target.create;
      void loadSchema();
    }
    this.step = 'loading';
    let bytesRead = 0;
    const onRead = (bytes: number) => {
      bytesRead = bytes;
    };
    for await (const part of partsOf(plan, onRead)) {
      if (part.to > this.doneTo) await this.send(part, plan, target);
      this.doneTo = part.to;
      this.bytesDone = plan.isGzip ? bytesRead : part.to;
    }
    this.bytesDone = this.bytesTotal;
  }

  private async send(part: Part, plan: LoadPlan, target: LoadTarget): Promise<void> {
    if (this.abort.signal.aborted) throw new ApiError('cancelled', 'cancelled');
    const { body, type, linesBefore, misfits } = bodyOf(part, plan);
    const misfit = misfits[target.maxRejects - this.rejected];
    if (misfit) throw new ApiError('invalid_value', `line ${misfit.line}: ${misfit.reason}`, this.hint());
    const maxRejects = target.maxRejects - this.rejected - misfits.length;
    const request = { body, type, label: partLabel(target.label, part), maxRejects, signal: this.abort.signal };
    try {
      const answer = await loadRows(target.table, request);
      if (answer.applied_before) this.rowsBefore += answer.rows;
      else this.rows += answer.rows;
      this.rejected += answer.rejected + misfits.length;
      const rejects = answer.rejects.map((reject) => ({ ...reject, line: reject.line + linesBefore }));
      this.rejects = [...this.rejects, ...misfits, ...rejects].slice(0, SHOWN_REJECTS);
    } catch (failure) {
      const { code, message, hint, status } = asApiError(failure);
      const told = withFileLine(message, linesBefore);
      throw new ApiError(code, told, status >= 400 ? (this.hint() ?? hint) : hint, status);
    }
  }

  /** The server knows of the part only that it sent. */
  private hint(): string | null {
    if (this.rows + this.rowsBefore === 0) return null;
    return 'the rows of the parts before it stay in the table';
  }
}
