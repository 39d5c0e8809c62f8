/** Determines which tokens of a tokenizer.json some texts need, and removes the others. */
import { HeedError } from '../base/error.js';
import type { Settings } from '../io/settings.js';

interface Model {
  type?: string | undefined;
  vocab: Record<string, number> | [string, number][];
  merges?: (string | [string, string])[] | undefined;
  unk_id?: number | undefined;
  unk_token?: string | undefined;
  max_input_chars_per_word?: number | undefined;
  continuing_subword_prefix?: string | null | undefined;
  end_of_word_suffix?: string | null | undefined;
  byte_fallback?: boolean | undefined;
}

/** The vocabulary of a tokenizer. */
export class Vocabulary {
  readonly #json: Record<string, unknown>;
  readonly #model: Model;
  readonly #type: string;
  /** The tokens by id, including added tokens. */
  readonly tokens = new Map<number, string>();
  readonly #ids: Map<string, number>;
  /** The maximum length of a token. */
  readonly #longest: number;

  /** @throws HeedError UNSUPPORTED for a model other than WordPiece, BPE, Unigram and WordLevel */
  constructor(settings: Settings) {
    this.#json = Object.fromEntries(settings.entries());
    const model = this.#json.model as Model;
    this.#model = model;
    const isList = Array.isArray(model.vocab);
    this.#type = model.type ?? (isList ? 'Unigram' : model.merges ? 'BPE' : 'WordPiece');
    const isKnown = isList ? this.#type === 'Unigram' : ['WordPiece', 'BPE', 'WordLevel'].includes(this.#type);
    if (!isKnown || (this.#type === 'BPE' && model.continuing_subword_prefix)) {
      const expected = 'a WordPiece, BPE, Unigram or WordLevel model, BPE without continuing_subword_prefix';
      throw settings.unsupported('model', expected, this.#type);
    }
    const entries = Array.isArray(model.vocab)
      ? model.vocab.map(([token], id) => [token, id] as const)
      : Object.entries(model.vocab);
    for (const [token, id] of entries) this.tokens.set(id, token);
    this.#ids = new Map(entries);
    for (const { id, content } of this.#added()) {
      this.tokens.set(id, content);
      this.#ids.set(content, id);
    }
    this.#longest = [...this.#ids.keys()].reduce((longest, { length }) => Math.max(longest, length), 0);
  }

  #added(): { id: number; content: string }[] {
    return (this.#json.added_tokens as { id: number; content: string }[] | undefined) ?? [];
  }

  idOf(token: string): number | undefined {
    return this.#ids.get(token);
  }

  /** The id of the unknown token. */
  get unknownId(): number | undefined {
    const { unk_id, unk_token } = this.#model;
    return unk_id ?? (unk_token === undefined ? undefined : this.idOf(unk_token));
  }

  /**
   * Adds the tokens that must be kept: without them, the corpus would be tokenized differently, or other texts could
   * not be tokenized. These are added tokens, the unknown token, byte tokens, and single-character tokens whose
   * character is ASCII or occurs in the corpus's tokens. `unknown`: the words of the corpus that map to the unknown
   * token.
   */
  complete(ids: Set<number>, unknown: Iterable<string>): void {
    for (const { id } of this.#added()) ids.add(id);
    if (this.unknownId !== undefined) ids.add(this.unknownId);
    if (this.#type === 'Unigram') ids.add(this.#leastLikely());
    if (this.#type === 'WordPiece') for (const word of unknown) this.#addPiecesOf(word, ids);
    const alphabet = new Set([...ids].flatMap((id) => [...(this.tokens.get(id) ?? '')]));
    for (let code = 0x21; code < 0x7f; code++) alphabet.add(String.fromCharCode(code));
    const isByteLevel = JSON.stringify(this.#json.pre_tokenizer ?? null).includes('"ByteLevel"');
    for (const [id, token] of this.tokens) {
      const character = this.#characterOf(token);
      const isByte = this.#model.byte_fallback === true && /^<0x[\dA-F]{2}>$/.test(token);
      if (isByte || (character !== null && (isByteLevel || alphabet.has(character)))) ids.add(id);
    }
    if (this.#type === 'BPE') this.#addMerged(ids);
  }

  /**
   * The character of a single-character token, without marks for the beginning, continuation or end of a word; null for
   * longer tokens.
   */
  #characterOf(token: string): string | null {
    const { continuing_subword_prefix: prefix, end_of_word_suffix: suffix } = this.#model;
    let core = token;
    if ([...core].length > 1 && prefix && core.startsWith(prefix)) core = core.slice(prefix.length);
    else if ([...core].length > 1 && /^[▁Ġ]/.test(core)) core = core.slice(1);
    if (suffix && core.endsWith(suffix)) core = core.slice(0, -suffix.length);
    return [...core].length === 1 ? core : null;
  }

  /** The least likely token of a Unigram model, whose score determines that of unknown characters. */
  #leastLikely(): number {
    const scores = (this.#model.vocab as [string, number][]).map(([, score]) => score);
    return scores.reduce((least, score, id) => (score < scores[least]! ? id : least), 0);
  }

  /**
   * Adds all tokens that occur in an unknown word: removing one of them could let the longest-match search succeed.
   * Words longer than the model's limit are unknown with any vocabulary.
   */
  #addPiecesOf(word: string, ids: Set<number>): void {
    const prefix = this.#model.continuing_subword_prefix ?? '##';
    const limit = this.#model.max_input_chars_per_word ?? 100;
    const stripped = word.normalize('NFD').replace(/\p{Mn}/gu, '');
    for (const form of new Set([word, word.toLowerCase(), stripped, stripped.toLowerCase()])) {
      if ([...form].length > limit) continue;
      for (let from = 0; from < form.length; from++)
        for (let to = from + 1; to <= Math.min(form.length, from + this.#longest); to++) {
          const piece = form.slice(from, to);
          for (const token of [piece, prefix + piece]) {
            const id = this.idOf(token);
            if (id !== undefined) ids.add(id);
          }
        }
    }
  }

  /** Adds intermediate tokens: BPE builds a token by merges, which need them. */
  #addMerged(ids: Set<number>): void {
    const ranks = new Map(this.#merges().map((pair, rank) => [pair.join('\0'), rank]));
    for (const id of [...ids])
      for (const [left, right] of mergesOf(this.#symbolsOf(this.tokens.get(id) ?? ''), ranks))
        for (const token of [left, right, left + right]) {
          const part = this.idOf(token);
          if (part !== undefined) ids.add(part);
        }
  }

  #merges(): [string, string][] {
    const pairs = (this.#model.merges ?? []).map((merge) => (typeof merge === 'string' ? merge.split(' ', 2) : merge));
    return pairs as [string, string][];
  }

  #symbolsOf(token: string): string[] {
    const suffix = this.#model.end_of_word_suffix;
    if (!suffix || !token.endsWith(suffix)) return [...token];
    const symbols = [...token.slice(0, -suffix.length)];
    return symbols.length === 0 ? [suffix] : [...symbols.slice(0, -1), symbols.at(-1)! + suffix];
  }

  /** Returns tokenizer.json with only the tokens in `newIds` (old id -> new id, in ascending order). */
  pruned(newIds: ReadonlyMap<number, number>): string {
    const model = this.#model;
    const has = (token: string) => newIds.has(this.idOf(token) ?? -1);
    const vocab = Array.isArray(model.vocab)
      ? model.vocab.filter((_, id) => newIds.has(id))
      : Object.fromEntries(
          Object.entries(model.vocab).flatMap(([token, id]) => (newIds.has(id) ? [[token, newIds.get(id)!]] : [])),
        );
    const isKept = ([left, right]: [string, string]) => has(left) && has(right) && has(left + right);
    const pairs = this.#merges();
    const json = {
      ...this.#json,
      added_tokens: this.#added().map((token) => ({ ...token, id: newIds.get(token.id)! })),
      post_processor: renumbered(this.#json.post_processor, newIds),
      padding: renumbered(this.#json.padding, newIds),
      model: {
        ...model,
        vocab,
        ...(model.merges && { merges: model.merges.filter((_, i) => isKept(pairs[i]!)) }),
        ...(typeof model.unk_id === 'number' && { unk_id: newIds.get(model.unk_id)! }),
      },
    };
    return JSON.stringify(json);
  }
}

/**
 * The merges that turn the symbols into a single token, in order; empty if they cannot. The lowest rank is merged
 * first; among equal ranks, the leftmost.
 */
function mergesOf(symbols: string[], ranks: ReadonlyMap<string, number>): [string, string][] {
  const merges: [string, string][] = [];
  while (symbols.length > 1) {
    let [best, at] = [Infinity, -1];
    for (let i = 0; i + 1 < symbols.length; i++) {
      const rank = ranks.get(`${symbols[i]}\0${symbols[i + 1]}`) ?? Infinity;
      if (rank < best) [best, at] = [rank, i];
    }
    if (at < 0) return [];
    merges.push([symbols[at]!, symbols[at + 1]!]);
    symbols.splice(at, 2, symbols[at]! + symbols[at + 1]!);
  }
  return merges;
}

/** Renumbers the ids in a post-processor or the padding: lists `ids`, pairs of a token and its id, and `pad_id`. */
function renumbered(value: unknown, newIds: ReadonlyMap<number, number>): unknown {
  const renew = (id: unknown) => newIds.get(id as number) ?? id;
  if (Array.isArray(value)) {
    const isPair = value.length === 2 && typeof value[0] === 'string' && typeof value[1] === 'number';
    return isPair ? [value[0], renew(value[1])] : value.map((entry) => renumbered(entry, newIds));
  }
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).map(([key, part]): [string, unknown] => {
    if (key === 'ids' && Array.isArray(part)) return [key, part.map(renew)];
    if (key === 'pad_id') return [key, renew(part)];
    return [key, renumbered(part, newIds)];
  });
  return Object.fromEntries(entries);
}

/** Renumbers the token ids in tokenizer_config.json. */
export function prunedTokenizerConfig(config: Record<string, unknown>, newIds: ReadonlyMap<number, number>): object {
  const decoder = config.added_tokens_decoder;
  if (typeof decoder !== 'object' || decoder === null) return config;
  const entries = Object.entries(decoder).flatMap(([id, token]) => {
    const now = newIds.get(Number(id));
    return now === undefined ? [] : [[now, token]];
  });
  return { ...config, added_tokens_decoder: Object.fromEntries(entries) };
}

/** Renumbers the ids in config.json and updates the size of the vocabulary. Removes ids whose rows are gone. */
export function prunedConfig(config: Record<string, unknown>, newIds: ReadonlyMap<number, number>): object {
  const entries = Object.entries(config).flatMap(([key, value]): [string, unknown][] => {
    if (key === 'vocab_size') return [[key, newIds.size]];
    if (!key.endsWith('_token_id')) return [[key, value]];
    if (Array.isArray(value)) return [[key, value.flatMap((id) => newIds.get(id) ?? [])]];
    if (typeof value !== 'number') return [[key, value]];
    const id = newIds.get(value);
    return id === undefined ? [] : [[key, id]];
  });
  return Object.fromEntries(entries);
}

/** Lowers the limits on the tokens of a text in tokenizer_config.json or sentence_bert_config.json; null: keeps them. */
export function shortened(config: Record<string, unknown>, positions: number | null): object {
  const entries = Object.entries(config).map(([key, value]) => {
    const isLimit = ['model_max_length', 'max_seq_length'].includes(key) && typeof value === 'number';
    return [key, isLimit && positions !== null ? Math.min(value, positions) : value];
  });
  return Object.fromEntries(entries);
}

/** Makes the error for a tokenizer that cannot be pruned without changing the corpus's results. */
export function unlike(index: number, what: string) {
  const problem = `pruning would change the ${what} of this text, so the tokenizer cannot be pruned`;
  return new HeedError('UNSUPPORTED', `prune.keep[${index}]: ${problem}`);
}
