/**
 * tokenizer.json as transformers 5 runs it: its tokenizer classes build the normalizer and other components from the
 * settings in tokenizer_config.json, and add the special tokens of that file.
 */
import { HeedError, importing, invalid } from '../base/error.js';
import type { Settings } from '../io/settings.js';
import type { AddedToken } from './added-tokens.js';
import { bertNormalizer } from './bert-normalizer.js';
import type { ClassTokenizer, Config, TokenizerFiles } from './tokenizer-settings.js';

/** The tokenizer as tokenizer.json describes it. */
export const ofFile = (json: Settings): ClassTokenizer => ({ json, hasTypes: true, splitsSpecial: false });

const classTokenizer = () => importing('class-tokenizer', () => import('./class-tokenizer.js'));

/** The tokenizer that AutoTokenizer makes of a folder. */
export async function tokenizerOf(json: Settings, files: TokenizerFiles): Promise<ClassTokenizer> {
  const { settings, config } = files;
  const model = json.get('model') as Config | undefined;
  // TextTokenizer reports a file without a vocabulary.
  if ((!settings && !config) || typeof model?.vocab !== 'object' || model.vocab === null) return ofFile(json);
  try {
    const read = readOnce(files.read);
    if (settings && isOwnBert(json, settings, config) && (await addsNothing(settings, read))) return ofFile(json);
    return await (await classTokenizer()).classTokenizer(json, { ...files, read });
  } catch (cause) {
    if (cause instanceof HeedError || !(cause instanceof TypeError)) throw cause; // aborted reads are passed on
    const got = 'components that its tokenizer class cannot use';
    throw invalid(json.file, "a tokenizer.json of Hugging Face's format", got, 'INVALID_FILE', { cause });
  }
}

/** Keys of tokenizer_config.json that can change a tokenizer of BERT's class in other ways than its normalizer. */
const OTHERS = ['additional_special_tokens', 'extra_special_tokens', 'split_special_tokens', 'model_input_names'];
const NAMED = { unk_token: '[UNK]', sep_token: '[SEP]', pad_token: '[PAD]', cls_token: '[CLS]', mask_token: '[MASK]' };

/**
 * Whether BERT's class makes the same tokenizer that tokenizer.json describes, as for most published BERTs, which then
 * load without the code of the classes.
 */
function isOwnBert(json: Settings, settings: Settings, config: Settings | undefined): boolean {
  const type = config?.get('model_type');
  if (settings.get('tokenizer_class') !== 'BertTokenizer' || (type !== undefined && type !== 'bert')) return false;
  const given = settings.get('added_tokens_decoder') ?? {};
  const keys = settings.names();
  if (keys.some((key) => OTHERS.includes(key) || (key.endsWith('_token') && !Object.hasOwn(NAMED, key)))) return false;
  const names = namesIn(settings);
  const added = (json.get('added_tokens') ?? []) as AddedToken[];
  const isPlain = (token: Partial<AddedToken>) => token.special && hasNoFlags(token);
  const tokens = [...added, ...(Object.values(given) as AddedToken[])];
  if (!tokens.every((token) => isPlain(token) && names.includes(token.content)) || added.length < names.length)
    return false;
  const {
    type: kind,
    continuing_subword_prefix: prefix,
    max_input_chars_per_word: limit,
    unk_token,
  } = json.get('model') as Config;
  const { cls_token: cls, sep_token: sep } = NAMED;
  return (
    String([kind, prefix, limit, unk_token]) === String(['WordPiece', '##', 100, names[0]]) &&
    canonical(json.get('normalizer')) === canonical(bertNormalizer(settings)) &&
    (json.get('pre_tokenizer') as Config | undefined)?.type === 'BertPreTokenizer' &&
    names[1] === sep &&
    names[3] === cls &&
    shapeOf(json.get('post_processor')) === TEMPLATE
  );
}

const namesIn = (settings: Settings) => Object.entries(NAMED).map(([key, fallback]) => settings.get(key) ?? fallback);

const hasNoFlags = ({ lstrip, rstrip, single_word, normalized }: Partial<AddedToken>) =>
  !(lstrip || rstrip || single_word || normalized);

/**
 * Whether the files with special tokens beside tokenizer_config.json, which folders of transformers before 4.34 have,
 * only repeat the names of BERT's tokens.
 */
async function addsNothing(settings: Settings, read: TokenizerFiles['read']): Promise<boolean> {
  if (settings.get('added_tokens_decoder') !== undefined) return true; // transformers does not read them then
  const [map, added] = await Promise.all([read('special_tokens_map.json'), read('added_tokens.json')]);
  const names = namesIn(settings);
  const isSame = ([key, value]: [string, unknown]) => {
    const token = (typeof value === 'string' ? { content: value } : (value ?? {})) as Partial<AddedToken>;
    const at = Object.keys(NAMED).indexOf(key);
    return at >= 0 && token.content === names[at] && hasNoFlags(token);
  };
  return (map?.entries() ?? []).every(isSame) && (added?.entries() ?? []).every(([token]) => names.includes(token));
}

/** Reads each file once. */
function readOnce(read: TokenizerFiles['read']): TokenizerFiles['read'] {
  const files = new Map<string, ReturnType<TokenizerFiles['read']>>();
  return (name) => {
    const file = files.get(name) ?? read(name);
    files.set(name, file);
    return file;
  };
}

const canonical = (config: unknown) =>
  JSON.stringify(Object.entries(config ?? {}).sort(([a], [b]) => (a < b ? -1 : 1)));

const TEMPLATE = '[CLS]0 A0 [SEP]0,[CLS]0 A0 [SEP]0 B1 [SEP]1';

/** The parts of a template with their types. */
function shapeOf(processor: unknown): string {
  const { single, pair } = (processor ?? {}) as Record<string, Record<string, { id: string; type_id: number }>[]>;
  const shape = (parts: typeof single = []) =>
    parts.map((part) => Object.values(part).map(({ id, type_id }) => id + type_id)).join(' ');
  return `${shape(single)},${shape(pair)}`;
}
