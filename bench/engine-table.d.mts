interface Measured {
  build: string;
  threads: number;
  rows: {
    dtype: string;
    cells: { shape: number[]; ms: number; speedup: { median: number; low: number; high: number } }[];
  }[];
}
export function cpuName(): string;
export function rowsOf(engine: string, measured: Measured, date: string): string[];
export function withRows(text: string, cpu: string, rows: string[]): string;
