/** The number of CPU cores, and options that count workers or threads. */
import { integer, type Reader } from './options.js';
import { nodeModule } from './platform.js';

/** A number of workers or threads, and the reason for it. */
export interface Count {
  readonly count: number;
  readonly reason: string;
}

/** The number of CPU cores; 0 if the engine does not report it. */
export function coreCount(): number {
  const browser = (globalThis as { navigator?: { hardwareConcurrency?: number | undefined } | undefined }).navigator;
  return nodeModule<typeof import('node:os')>('os')?.availableParallelism() ?? browser?.hardwareConcurrency ?? 0;
}

/** Reads a number up to `most`, or 'auto' for the number of CPU cores, at most `mostAuto`. */
export function countUpTo(most: number, mostAuto: number): Reader<Count> {
  return (value, name) => {
    if (value !== 'auto') return { count: integer(value, name, 1, most, "'auto' or "), reason: 'asked for' };
    const cores = coreCount();
    if (!cores) return { count: 1, reason: 'the engine does not report the number of cores' };
    const used = cores > mostAuto ? `, at most ${mostAuto} are used` : '';
    return { count: Math.min(cores, mostAuto), reason: `${cores} cores${used}` };
  };
}
