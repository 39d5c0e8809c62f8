/**
 * Makes the tokenizer.json that a tokenizer class of transformers 5 runs. Imported on demand. Source: transformers 5.24,
 * tokenization_utils_base.py (`_from_pretrained`) and tokenization_utils_tokenizers.py (`TokenizersBackend`).
 */
import { Settings } from '../io/settings.js';
import { type AddedToken, addedTokens } from './added-tokens.js';
import { postProcessorOf } from './post-processors.js';
import { type Arguments, classOf, NAMED, type Named, type TokenizerClass } from './tokenizer-classes.js';
import { type ClassTokenizer, type Config, configsIn, type TokenizerFiles } from './tokenizer-settings.js';
import { typeOf } from './vocabulary.js';

type Json = Record<string, unknown>;
/** An added token whose properties have defaults: a special token, for the text of a named token. */
type Token = string | (Partial<AddedToken> & { content: string });

const CLASS = 'tokenizer_class';
const EXTRA = 'extra_special_tokens';
const ADDITIONAL = 'additional_special_tokens';

const textOf = (token: Token) => (typeof token === 'string' ? token : token.content);

export async function classTokenizer(json: Settings, files: TokenizerFiles): Promise<ClassTokenizer> {
  const { config } = files;
  const settings = files.settings ?? new Settings({}, 'tokenizer_config.json');
  const given = settings.get(CLASS) ?? config?.get(CLASS);
  const type = config?.get('model_type');
  const isByteLevel = ['normalizer', 'pre_tokenizer', 'post_processor', 'decoder'].some((key) =>
    JSON.stringify(json.get(key) ?? '').includes('"ByteLevel"'),
  );
  let found = classOf(
    given === undefined ? undefined : String(given),
    type === undefined ? undefined : String(type),
    isByteLevel,
  );
  for (const key of ['fast_tokenizer_files', 'init_inputs']) {
    const value = settings.get(key);
    if (value !== undefined && String(value) !== '') throw settings.unsupported(key, 'none', JSON.stringify(value));
  }
  const hasTypes = (settings.get('model_input_names') ?? null) as unknown;
  const types = hasTypes === null ? found.hasTypes === true : namesOf(settings).includes('token_type_ids');
  const splitsSpecial = settings.flag('split_special_tokens', false);
  const result = { hasTypes: types, splitsSpecial };
  if (found.refused) {
    const { message } = settings.unsupported(CLASS, 'a class of texts alone', `'${given ?? type}': ${found.refused}`);
    settings.entries(); // none of the other settings matters
    return { ...result, json, refused: message };
  }
  const model = json.get('model') as Config;
  // A class for another kind of vocabulary cannot be what the tokenizer.json was made with.
  if (found.model && found.model !== (model.type ?? typeOf(model))) found = { hasTypes: found.hasTypes };
  return { ...result, json: await runJson(json, settings, found, files) };
}

function namesOf(settings: Settings): unknown[] {
  const key = 'model_input_names';
  const names = settings.get(key);
  if (Array.isArray(names)) return names;
  throw settings.wrong(key, 'an array of names', names);
}

/** The tokenizer.json that runs. */
async function runJson(
  json: Settings,
  settings: Settings,
  found: TokenizerClass,
  files: TokenizerFiles,
): Promise<Settings> {
  const model = json.get('model') as Config;
  const tokens = new SpecialTokens(settings, json, found);
  await tokens.read(files.read);
  const vocabulary = new Vocabulary(model);
  const own = found.model === undefined;
  const fileTokens = (json.get('added_tokens') ?? []) as AddedToken[];
  const args: Arguments = {
    settings,
    named: (key) => tokens.text(key),
    truthy: (key, fallback) => (settings.names().includes(key) ? Boolean(settings.get(key)) : fallback),
    idOf: (token) => ids.get(token) ?? vocabulary.get(token) ?? ids.get(tokens.text('unk_token')) ?? 0,
    unigramId: (token, score) => vocabulary.indexOf(token, score),
    precompiled: precompiledOf(json),
  };
  const added = tokens.added(own ? fileTokens : [], args);
  const ids = new Map(addedTokens(added, vocabulary, Infinity).map(({ content, id }) => [content, id]));
  const file = (json.get('post_processor') ?? null) as Config | null;
  if (file) postProcessorOf(file); // refuses a damaged one, also if the class has its own
  const kept = file ?? found.ownPostProcessor?.(args) ?? null;
  const isReset = found.resetsPostProcessor && file === null;
  const parts: Json = {
    added_tokens: added,
    post_processor: isReset ? null : (found.postProcessor?.(args) ?? kept),
  };
  if (!own) {
    const { vocab, merges } = model;
    parts.model = { type: found.model, vocab, ...(merges !== undefined && { merges }), ...found.options?.(args) };
    parts.normalizer = found.normalizer?.(args) ?? null;
    parts.pre_tokenizer = found.preTokenizer?.(args) ?? null;
    parts.decoder = found.decoder?.(args) ?? null;
  }
  return json.with(parts);
}

function precompiledOf(json: Settings): Config | null {
  const normalizer = json.get('normalizer') as Config | undefined;
  if (!normalizer) return null;
  const steps = normalizer.type === 'Sequence' ? configsIn(normalizer.normalizers) : [normalizer];
  return steps.find(({ type }) => type === 'Precompiled') ?? null;
}

/** Ids in the model's vocabulary, without a map of all of them. */
class Vocabulary {
  readonly size: number;
  readonly #vocab: Json | [string, number][];
  readonly #found = new Map<string, number | undefined>();

  constructor({ vocab }: Config) {
    this.#vocab = vocab as Json | [string, number][];
    this.size = Array.isArray(vocab) ? vocab.length : Object.keys(vocab as Json).length;
  }

  get(token: string): number | undefined {
    if (!Array.isArray(this.#vocab))
      return Object.hasOwn(this.#vocab, token) ? (this.#vocab[token] as number) : undefined;
    if (!this.#found.has(token)) this.#found.set(token, this.#last(token));
    return this.#found.get(token);
  }

  /** As in a map of the pairs, the last of equal tokens counts. */
  #last(token: string): number | undefined {
    const vocab = this.#vocab as [string, number][];
    let id = vocab.length - 1;
    while (id >= 0 && vocab[id]![0] !== token) id--;
    return id < 0 ? undefined : id;
  }

  indexOf(token: string, score: number | undefined): number | undefined {
    const vocab = this.#vocab as [string, number][];
    const id = vocab.findIndex((pair) => pair[0] === token && (score === undefined || pair[1] === score));
    return id < 0 ? undefined : id;
  }
}

/** The added tokens that the settings describe. */
class SpecialTokens {
  readonly #settings: Settings;
  readonly #json: Settings;
  readonly #class: TokenizerClass;
  /** The settings about tokens, with those of special_tokens_map.json. */
  readonly #values: Map<string, unknown>;
  /** Ids and tokens of `added_tokens_decoder` or, without it, of the other files. */
  #decoder = new Map<number, Token>();
  #named = new Map<string, Token | null>();

  constructor(settings: Settings, json: Settings, found: TokenizerClass) {
    this.#settings = settings;
    this.#json = json;
    this.#class = found;
    this.#values = new Map(tokensIn(settings));
  }

  async read(read: TokenizerFiles['read']): Promise<void> {
    const values = this.#values;
    if (values.has(ADDITIONAL) && !isTruthy(values.get(EXTRA))) {
      values.set(EXTRA, values.get(ADDITIONAL));
      values.delete(ADDITIONAL);
    }
    const given = this.#settings.record('added_tokens_decoder');
    if (given)
      for (const [id, token] of given.entries())
        this.#decoder.set(Number(id), this.#token('added_tokens_decoder', token));
    else await this.#readOthers(read);
    const byText = new Map([...this.#decoder.values()].map((token) => [textOf(token), token]));
    const attributes = new Map<string, Token | null>(NAMED.map((key) => [key, null]));
    for (const key of NAMED) {
      const value = values.get(key);
      const fallback = this.#class.names?.[key];
      const token = value === undefined ? (fallback ?? null) : value === null ? null : this.#token(key, value);
      const known = token !== null && value !== undefined ? (byText.get(textOf(token)) ?? token) : token;
      const strips = key === 'mask_token' && this.#class.maskStrips && typeof known === 'string';
      attributes.set(key, strips ? { content: known, lstrip: true } : known);
    }
    for (const [key, value] of Object.entries(this.#class.specific ?? {})) attributes.set(key, value);
    for (const [key, value] of values)
      if (key.endsWith('_token') && !attributes.has(key) && isToken(value))
        attributes.set(key, this.#token(key, value));
      else if (this.#class.specific?.[key] !== undefined && isToken(value))
        attributes.set(key, this.#token(key, value));
    const extra = values.get(EXTRA);
    if (typeof extra === 'object' && extra !== null && !Array.isArray(extra))
      for (const [key, value] of Object.entries(extra)) attributes.set(key, this.#token(EXTRA, value));
    this.#named = attributes;
  }

  /** The text of a named special token. */
  text(key: Named): string {
    const token = this.#named.get(key);
    if (token) return textOf(token);
    throw this.#settings.wrong(key, 'a token, which this class needs', undefined);
  }

  /** All added tokens, the last of equal ones being valid. `own`: those of a tokenizer.json that runs as it is. */
  added(own: AddedToken[], args: Arguments): AddedToken[] {
    const named = [...this.#named.values()].filter((token) => token !== null);
    const extra = this.#extra(args);
    const names = new Set(named.map(textOf));
    const adding: [id: number | undefined, token: Token][] = [...this.#decoder].sort(([a], [b]) => a - b);
    const known = new Set([...own.map(({ content }) => content), ...adding.map(([, token]) => textOf(token))]);
    for (const token of [...named, ...extra]) {
      if (!known.has(textOf(token))) adding.push([undefined, token]);
      known.add(textOf(token));
    }
    const tokens = [...own];
    for (const [id, token] of adding) tokens.push(whole(token, id, names.has(textOf(token))));
    const { readds } = this.#class;
    if (readds) {
      const again = readds === 'plain' ? [...named, ...extra].map(textOf) : [...named, ...extra];
      for (const token of again) tokens.push(whole(token, undefined, true));
    }
    return [...new Map(tokens.map((token) => [token.content, token])).values()];
  }

  /** The tokens of `extra_special_tokens` and of `additional_special_tokens`. */
  #extra(args: Arguments): Token[] {
    const extra = this.#values.get(EXTRA);
    const additional = this.#values.get(ADDITIONAL);
    // A list, also an empty one, replaces the class's own tokens; null is an empty list.
    const given = Array.isArray(extra) ? extra : extra === null ? [] : undefined;
    const others = Array.isArray(additional) ? additional : undefined;
    const own = this.#class.additional?.(args, others) ?? others ?? [];
    return (given ?? own).map((token) => this.#token(given ? EXTRA : ADDITIONAL, token));
  }

  /** special_tokens_map.json, added_tokens.json and the added tokens of tokenizer.json, as before transformers 4.34. */
  async #readOthers(read: TokenizerFiles['read']): Promise<void> {
    const [map, added] = await Promise.all(['special_tokens_map.json', 'added_tokens.json'].map(read));
    for (const [key, value] of map ? tokensIn(map) : []) {
      const isOne = typeof value === 'object' && value !== null && !Array.isArray(value) && key !== EXTRA;
      const existing = this.#values.get(EXTRA);
      if (isOne) this.#values.set(key, { ...value, special: true, __type: ADDED });
      else if (key === EXTRA && Array.isArray(value) && Array.isArray(existing))
        this.#values.set(key, [...existing, ...value]);
      else this.#values.set(key, value);
    }
    const extra = this.#values.get(EXTRA);
    const special = new Set(
      [...NAMED.map((key) => this.#values.get(key)), ...(Array.isArray(extra) ? extra : [])]
        .filter(isToken)
        .map((token) => textOf(this.#token(EXTRA, token))),
    );
    for (const [content, id] of added?.entries() ?? []) {
      const isSpecial = special.has(content);
      this.#decoder.set(Number(id), { content, normalized: !isSpecial, special: isSpecial });
    }
    for (const token of (this.#json.get('added_tokens') ?? []) as AddedToken[]) this.#decoder.set(token.id, token);
  }

  #token(key: string, value: unknown): Token {
    if (isToken(value)) return value;
    throw this.#settings.wrong(key, 'a token', value);
  }
}

const ADDED = 'AddedToken';

/** The values of the keys that name tokens; null if they name none. */
const tokensIn = (settings: Settings): [string, unknown][] =>
  settings
    .names()
    .filter((key) => key.endsWith('_token') || key === EXTRA || key === ADDITIONAL)
    .map((key) => [key, settings.get(key) ?? null]);

const isTruthy = (value: unknown) => (Array.isArray(value) ? value.length > 0 : Boolean(value));

const isToken = (value: unknown): value is Token =>
  typeof value === 'string' ||
  (typeof value === 'object' && value !== null && typeof (value as { content?: unknown }).content === 'string');

/** A token with all properties. `isNamed`: it is special in any case. */
function whole(token: Token, id: number | undefined, isNamed: boolean): AddedToken {
  const given: Partial<AddedToken> = typeof token === 'string' ? { special: true } : token;
  const special = isNamed || given.special === true;
  return {
    ...{ lstrip: false, rstrip: false, single_word: false },
    ...given,
    content: textOf(token),
    special,
    normalized: given.normalized ?? !special,
    ...(id !== undefined && { id }),
  } as AddedToken;
}
