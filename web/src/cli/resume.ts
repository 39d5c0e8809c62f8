/**
 * Stores, next to an incomplete output, everything that its records depend on, so that --resume never mixes models or
 * settings.
 */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { version } from '../base/wasm/version.js';
import { invalid, invalidFile, remove, statusOf, unreadable, writeWhole } from '../node/index.js';

/** Everything besides the texts that records depend on. */
export interface Fingerprint {
  /** Options by name; undefined for defaults. */
  readonly options: Readonly<Record<string, unknown>>;
  /** The model, as specified on the command line. */
  readonly model: string;
  /** Version of heed. */
  readonly heed: string;
  /** Hash of the record of a fixed text, which identifies the weights. */
  readonly probe: string;
}

/** The text whose record identifies a model. It is short, so that no model truncates it. */
export const PROBE = 'a fox';

export function fingerprintOf(
  probe: string,
  { model = 'in the package', ...options }: { model?: string; [option: string]: unknown },
): Fingerprint {
  const hash = createHash('sha256').update(probe).digest('hex');
  return { options: JSON.parse(JSON.stringify(options)), model, heed: version, probe: hash };
}

/** The fingerprint of an unfinished output, in a file next to it. */
export class FingerprintFile {
  readonly #out: string;
  readonly #path: string;

  constructor(out: string) {
    this.#out = out;
    this.#path = `${out}.resume.json`;
  }

  /**
   * @throws HeedError if the output was begun with another fingerprint. Outputs of earlier releases have no fingerprint
   *   and are accepted.
   */
  check(now: Fingerprint): void {
    if (!statusOf(this.#path)) return;
    const before = this.#read();
    const differences = differencesOf(before, now);
    if (differences.length === 0) return;
    const expected = `the model and the options with which '${this.#out}' was begun`;
    const hint = 'Use the same model and options, or another --out';
    throw invalid('--resume', expected, `${differences.join(', ')}. ${hint}`);
  }

  keep(fingerprint: Fingerprint): void {
    writeWhole(this.#path, `${JSON.stringify(fingerprint)}\n`, { replace: true });
  }

  remove(): void {
    remove(this.#path);
  }

  #read(): Fingerprint {
    let text: string;
    try {
      text = readFileSync(this.#path, 'utf8');
    } catch (cause) {
      throw unreadable(this.#path, cause);
    }
    try {
      const fingerprint = JSON.parse(text) as Fingerprint;
      if (typeof fingerprint.options === 'object' && typeof fingerprint.probe === 'string') return fingerprint;
    } catch {}
    throw invalidFile(
      this.#path,
      'the state that heed writes next to an unfinished output',
      'a file with other contents. Remove it',
    );
  }
}

function differencesOf(before: Fingerprint, now: Fingerprint): string[] {
  const shown = (value: unknown) => (value === undefined ? 'the default' : JSON.stringify(value));
  const names = new Set([...Object.keys(before.options), ...Object.keys(now.options)]);
  const differences = [...names].flatMap((name) => {
    const [was, is] = [shown(before.options[name]), shown(now.options[name])];
    return was === is ? [] : [`--${name} ${is} instead of ${was}`];
  });
  // If options differ, so does the record of the fixed text, so compare the models' names instead.
  const isOther = differences.length > 0 ? before.model !== now.model : before.probe !== now.probe;
  if (!isOther) return differences;
  if (before.model !== now.model) return [...differences, `the model ${now.model} instead of ${before.model}`];
  if (before.heed !== now.heed) return [`heed ${now.heed} instead of ${before.heed}`];
  return [`other files of the model ${now.model}, or an engine that rounds differently`];
}
