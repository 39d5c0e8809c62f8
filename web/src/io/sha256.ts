/**
 * SHA-256 (FIPS 180-4) of a stream of bytes. `crypto.subtle` requires all bytes at once and exists only on secure
 * pages.
 */
import { nodeModule } from '../base/platform.js';

export interface Hash {
  update(bytes: Uint8Array): unknown;
  /** The digest as 64 hex digits. Call this once, at the end. */
  hex(): string;
}

export function sha256(): Hash {
  const native = nodeModule<typeof import('node:crypto')>('crypto')?.createHash('sha256');
  return native ? { update: (bytes) => native.update(bytes), hex: () => native.digest('hex') } : new Sha256();
}

const BLOCK = 64;

/** The first 32 bits of the fractional parts of primes' roots. */
function rootBits(count: number, root: (prime: number) => number): Int32Array {
  const primes: number[] = [];
  for (let n = 2; primes.length < count; n++) if (primes.every((p) => n % p !== 0)) primes.push(n);
  return Int32Array.from(primes, (p) => (root(p) % 1) * 2 ** 32);
}

const K = rootBits(64, Math.cbrt);
const rotated = (x: number, by: number) => (x >>> by) | (x << (32 - by));

/** @internal Exported for tests, because Node's own hash is used in Node. */
export class Sha256 implements Hash {
  readonly #state = rootBits(8, Math.sqrt);
  readonly #rest = new Uint8Array(BLOCK);
  /** Signed words, because engines keep these in registers. */
  readonly #w = new Int32Array(BLOCK);
  #length = 0;

  update(bytes: Uint8Array): void {
    let at = 0;
    while (at < bytes.length) {
      const filled = this.#length % BLOCK;
      const step = Math.min(BLOCK - filled, bytes.length - at);
      if (step === BLOCK) this.#block(bytes, at);
      else {
        this.#rest.set(bytes.subarray(at, at + step), filled);
        if (filled + step === BLOCK) this.#block(this.#rest, 0);
      }
      this.#length += step;
      at += step;
    }
  }

  hex(): string {
    // Padding: a one bit, zeros, and the length in bits as the block's last 8 bytes.
    const end = new Uint8Array(9 + ((2 * BLOCK - 9 - (this.#length % BLOCK)) % BLOCK));
    end[0] = 0x80;
    new DataView(end.buffer).setBigUint64(end.length - 8, BigInt(this.#length) * 8n);
    this.update(end);
    return Array.from(this.#state, (word) => (word >>> 0).toString(16).padStart(8, '0')).join('');
  }

  #block(bytes: Uint8Array, at: number): void {
    const w = this.#w;
    const state = this.#state;
    for (let t = 0; t < 16; t++, at += 4)
      w[t] = (bytes[at]! << 24) | (bytes[at + 1]! << 16) | (bytes[at + 2]! << 8) | bytes[at + 3]!;
    for (let t = 16; t < 64; t++) {
      const x = w[t - 15]!;
      const y = w[t - 2]!;
      const s0 = rotated(x, 7) ^ rotated(x, 18) ^ (x >>> 3);
      const s1 = rotated(y, 17) ^ rotated(y, 19) ^ (y >>> 10);
      w[t] = (w[t - 16]! + s0 + w[t - 7]! + s1) | 0;
    }
    let [a, b, c, d, e, f, g, h] = state as unknown as [number, number, number, number, number, number, number, number];
    for (let t = 0; t < 64; t++) {
      const s1 = rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25);
      const t1 = (h + s1 + ((e & f) ^ (~e & g)) + K[t]! + w[t]!) | 0;
      const s0 = rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22);
      const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      h = g;
      g = f;
      f = e;
      e = (d + t1) | 0;
      d = c;
      c = b;
      b = a;
      a = (t1 + t2) | 0;
    }
    [a, b, c, d, e, f, g, h].forEach((word, i) => {
      state[i] = state[i]! + word;
    });
  }
}
