/** How far it is, on a terminal; nothing where standard error is a file or a pipe. */
export class ProgressLine {
  private readonly start = performance.now();
  private last = 0;
  private readonly shown = process.stderr.isTTY === true;

  constructor(
    private readonly what: string,
    private readonly total?: number,
  ) {}

  update(done: number): void {
    const now = performance.now();
    if (!this.shown || now - this.last < 100) return;
    this.last = now;
    const rate = done / ((now - this.start) / 1000);
    const bar = this.total
      ? ` [${'#'.repeat(Math.round((20 * done) / this.total)).padEnd(20, '.')}] of ${this.total.toLocaleString('en')}`
      : '';
    process.stderr.write(
      `\r\x1b[K${this.what}: ${done.toLocaleString('en')}${bar}, ${Math.round(rate).toLocaleString('en')} a second`,
    );
  }

  end(): void {
    if (this.shown) process.stderr.write('\r\x1b[K');
  }
}
