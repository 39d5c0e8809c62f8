/** Which error a call rejects with whose texts or images are computed by several workers at a time. */
import { HeedError } from '../base/error.js';

/** What a message begins with that is about one text or image of a call; the only image of a call has no index. */
const PLACE = /^(?:(texts|textPairs|inputIds|attentionMask|tokenTypeIds|images)\[(\d+)\]|(images)(?=[:.]))/;

/** The failures of texts or images in a call. As in one thread, the call rejects with that of the first one: after a failure, those before it are still computed. */
export class Failures {
  first: { readonly error: unknown; readonly at: number } | null = null;

  /** Those of a share that must still be computed. */
  before(share: readonly number[]): readonly number[] {
    const { first } = this;
    return first ? share.filter((n) => n < first.at) : share;
  }

  /** Adds the failure of a share, whose error has an index in the share, and from now on that in the call. Returns false for an error of the whole call. */
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
