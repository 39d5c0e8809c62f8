/** Progress on standard error: a bar with the rate and the remaining time. */
import { dispose } from '../base/platform.js';
import { progressLine, settings, widthOf } from './terminal.js';

/** Milliseconds between two updates. */
const INTERVAL = 100;
const BAR = 20;

const megabytes = (bytes: number) => `${(bytes / 1e6).toFixed(1)} MB`;
const plain = (count: number) => Math.round(count).toLocaleString('en');

/**
 * A line that is rewritten in place on a terminal and cleared at the end. Nothing is written to files and pipes. No
 * library is used: cli-progress has had no release since 2023 and requires a total, which streams lack; ora and
 * nanospinner have no bars; listr2 is larger than the rest of the command line.
 *
 * @example
 * using progress = new Progress('embedding', 'texts');
 * progress.update(256, 0.1);
 */
export class Progress {
  readonly #what: string;
  readonly #format: (done: number) => string;
  readonly #shown = process.stderr.isTTY === true && process.env.TERM !== 'dumb' && !settings.quiet;
  readonly #start = performance.now();
  #last = this.#start;
  #visible = false;

  /** `unit`: the unit that is counted; 'bytes' are shown as megabytes. */
  constructor(what: string, unit: string) {
    this.#what = what;
    this.#format = unit === 'bytes' ? megabytes : (count) => `${plain(count)} ${unit}`;
  }

  /** Shows the progress that a function of the library reports. */
  readonly onProgress = ({ done, total }: { done: number; total: number | null }): void =>
    this.update(done, total ? done / total : undefined);

  /** `done`: amount done so far. `fraction`: fraction of the total, from 0 to 1, if known. */
  update(done: number, fraction?: number): void {
    const now = performance.now();
    if (!this.#shown || now - this.#last < INTERVAL) return;
    this.#last = now;
    this.#visible = true;
    progressLine.clear = () => this[dispose]();
    const seconds = (now - this.#start) / 1000;
    const rate = done / seconds;
    const parts = [this.#format(done), `${this.#format(rate)}/s`];
    let bar = '';
    if (fraction !== undefined) {
      const filled = Math.min(BAR, Math.round(BAR * fraction));
      bar = `[${'#'.repeat(filled).padEnd(BAR, '.')}] `;
      parts.unshift(`${Math.floor(100 * Math.min(1, fraction))} %`);
      // In the first second, the estimate is too inaccurate.
      if (fraction > 0 && seconds > 1) parts.push(`${clock((seconds / fraction) * Math.max(0, 1 - fraction))} left`);
    }
    const width = widthOf(process.stderr) - 1; // a line that fills the last column would wrap
    const text = `${this.#what} ${parts.join(', ')}`;
    const line = text.length + bar.length <= width ? `${this.#what} ${bar}${parts.join(', ')}` : text;
    process.stderr.write(`\r\x1b[K${line.slice(0, width)}`);
  }

  /** Clears the line. */
  [dispose](): void {
    if (this.#visible) process.stderr.write('\r\x1b[K');
    this.#visible = false;
  }
}

/** Formats a duration as 0:05, 12:30 or 1:02:03. */
export function clock(seconds: number): string {
  const whole = Math.ceil(seconds);
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60];
  const two = (n: number) => String(n).padStart(2, '0');
  return `${hours > 0 ? `${hours}:${two(minutes)}` : minutes}:${two(whole % 60)}`;
}
