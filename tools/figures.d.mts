export function kilobytes(bytes: number): string;
export function rangeOf(ratios: number[]): string;
export function engineRatios(markdown: string): { engine: string; threads: number; dtype: string; ratios: number[] }[];
export function sentenceRatios(markdown: string): Record<string, Record<string, number>>;
export function trainingTable(markdown: string): string;
export function cosineTable(markdown: string): string;
export function withFigures(
  text: string,
  figures?: Record<string, () => string>,
): { text: string; differences: string[]; failures: string[] };
export function checkFigures(options?: { fix?: boolean }): void;
