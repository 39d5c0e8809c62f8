/**
 * Shows progress on a terminal, and nothing if standard error is a file or a pipe. Own code: cli-progress has had no release since 2023 and needs a
 * total, which a stream does not have.
 */
export class ProgressLine {
  readonly #start = performance.now();
  readonly #shown = process.stderr.isTTY === true;
  #last = 0;

  constructor(
    private readonly what: string,
    private readonly total?: number,
  ) {}

  update(done: number): void {
    const now = performance.now();
    if (!this.#shown || now - this.#last < 100) return;
    this.#last = now;
    const rate = done / ((now - this.#start) / 1000);
    const bar = this.total
      ? ` [${'#'.repeat(Math.round((20 * done) / this.total)).padEnd(20, '.')}] of ${this.total.toLocaleString('en')}`
      : '';
    process.stderr.write(
      `\r\x1b[K${this.what}: ${done.toLocaleString('en')}${bar}, ${Math.round(rate).toLocaleString('en')} a second`,
    );
  }

  end(): void {
    if (this.#shown) process.stderr.write('\r\x1b[K');
  }
}
