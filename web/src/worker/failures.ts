/** Calls whose texts or images several workers compute, and the error with which such a call rejects. */
import { HeedError } from '../base/error.js';
import { linkedAbort, type SignalLike } from '../base/platform.js';

/**
 * Beginning of an error message about one text or image of a call. If the call has a single image, there is no index.
 */
const PLACE = /^(?:(texts|textPairs|inputIds|attentionMask|tokenTypeIds|images)\[(\d+)\]|(images)(?=[:.]))/;

/**
 * Failures of a call's texts or images. As in a single thread, the call rejects with the error of the first failing
 * text or image, so after a failure, those before it are still computed.
 */
export class Failures {
  first: { readonly error: unknown; readonly at: number } | null = null;

  /** The indices of a share that must still be computed. */
  before(share: readonly number[]): readonly number[] {
    const { first } = this;
    return first ? share.filter((n) => n < first.at) : share;
  }

  /**
   * Adds the failure of a share and replaces the index in its message by that in the call. Returns false if the error
   * is not about one text or image.
   */
  add(error: unknown, share: readonly number[]): boolean {
    if (!(error instanceof HeedError)) return false;
    const { message } = error;
    const [place, name, index = 0, image] = PLACE.exec(message) ?? [];
    const at = share[Number(index)];
    if (place === undefined || at === undefined) return false;
    error.message = `${name ?? image}[${at}]${message.slice(place.length)}`;
    error.stack = error.stack?.replace(message, () => error.message);
    if (!this.first || at < this.first.at) this.first = { error, at };
    return true;
  }
}

/**
 * Runs `work` `count` times at once. An error that it throws aborts the signal of all of them and rejects the call;
 * failures that it adds reject the call once all have ended.
 */
export async function runTogether(
  count: number,
  signal: SignalLike | undefined,
  work: (signal: AbortSignal, failures: Failures) => Promise<void>,
): Promise<void> {
  const { stop, unlink } = linkedAbort(signal);
  const failures = new Failures();
  try {
    await Promise.all(Array.from({ length: count }, () => work(stop.signal, failures)));
  } catch (error) {
    stop.abort();
    throw error;
  } finally {
    unlink();
  }
  if (failures.first) throw failures.first.error;
}
