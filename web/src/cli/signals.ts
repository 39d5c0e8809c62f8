/** SIGINT and SIGTERM end a command at once, but in order. */
import { notice } from './terminal.js';

/** Exit codes of processes that a signal ends, by convention. */
const SIGNALS = { SIGINT: 130, SIGTERM: 143 } as const;

/**
 * Runs a command until it ends or a signal stops it; a second signal kills the process. `rest` says what is left behind.
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
    setTimeout(() => process.exit(), 500).unref(); // what is still open must not delay the end
  } finally {
    for (const remove of handlers) remove();
  }
}
