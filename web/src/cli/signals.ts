/** Makes SIGINT and SIGTERM stop a command promptly and cleanly. */
import { notice } from './terminal.js';

/** Conventional exit codes of processes ended by a signal. */
const SIGNALS = { SIGINT: 130, SIGTERM: 143 } as const;

/**
 * Runs a command until it ends or a signal stops it. A second signal kills the process. `rest` describes what is left
 * behind.
 */
export async function stoppable(run: (signal: AbortSignal) => Promise<void>, rest: () => string): Promise<void> {
  const stop = new AbortController();
  const { signal } = stop;
  const handlers = Object.entries(SIGNALS).map(([name, code]) => {
    const handler = () => {
      process.exitCode = code;
      stop.abort(name);
    };
    process.once(name, handler);
    return () => process.off(name, handler);
  });
  // The command may be waiting for standard input, which a signal does not end.
  const stopped = new Promise<never>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
  try {
    await Promise.race([run(signal), stopped]);
  } catch (error) {
    if (!signal.aborted) throw error;
    notice(`stopped by ${signal.reason}; ${rest()}`);
    setTimeout(() => process.exit(), 500).unref(); // open handles must not delay the end
  } finally {
    for (const remove of handlers) remove();
  }
}
