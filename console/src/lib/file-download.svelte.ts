// The download of a whole result as a file that the server writes. The rows of the screen are only the first ones, so
// the statement is run again, without a bound.

import { type ApiError, asApiError, queryFile } from './api';
import { download, type FileFormat } from './copy';
import type { Settings } from './settings';

export class FileDownload {
  isRunning = $state(false);
  /** Bytes that have arrived. */
  bytes = $state(0);
  outcome = $state<'saved' | 'cancelled' | null>(null);
  error = $state.raw<ApiError | null>(null);
  private abort: AbortController | null = null;

  /** The browser saves the file once it is whole. */
  async start(sql: string, settings: Settings, { mime, extension }: FileFormat): Promise<void> {
    if (this.isRunning) return;
    this.forget();
    this.isRunning = true;
    this.bytes = 0;
    this.abort = new AbortController();
    const onBytes = (bytes: number) => {
      this.bytes = bytes;
    };
    try {
      const file = await queryFile(sql, { mime, settings, signal: this.abort.signal, onBytes });
      download(`result.${extension}`, mime, file);
      this.outcome = 'saved';
    } catch (failure) {
      const error = asApiError(failure);
      if (error.code === 'cancelled') this.outcome = 'cancelled';
      else this.error = error;
    }
    this.isRunning = false;
  }

  cancel(): void {
    this.abort?.abort();
  }

  /** Of a download that runs, nothing is forgotten. */
  forget(): void {
    if (this.isRunning) return;
    this.outcome = null;
    this.error = null;
  }
}
