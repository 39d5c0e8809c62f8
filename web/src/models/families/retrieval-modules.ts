/**
 * Reads the modules of sentence-transformers' MultiVectorEncoder, SparseEncoder and CrossEncoder besides those of dense
 * vectors, and the settings of the Transformer for them.
 */
import { invalidFile } from '../../base/error.js';
import { Settings } from '../../io/settings.js';
import type { ChatSettings } from '../../text/chat-template.js';
import type { ModuleEntry, QueryExpansion, Reading, TextSettings } from './sentence-config.js';
import { LOGIT_SCORE, MASK, type OtherStep, SCORES, SPARSE_MODULES, TOKEN_POOLING, TOKENS, VECTORS } from './steps.js';

/** The settings of modules that are read when they are first used. */
const READ_LATER: Record<string, readonly string[]> = {
  [MASK]: ['skiplist_words', 'skiplist_tasks', 'keep_only_token_ids'],
  [TOKEN_POOLING]: ['pool_factor', 'num_protected_tokens', 'normalize_embeddings', 'tasks'],
  [LOGIT_SCORE]: ['true_token_id', 'false_token_id'],
  SparseAutoEncoder: ['k', 'normalize'],
};

/** The step of a module for token vectors, sparse vectors or scores; null for other modules. */
export function readRetrievalModule({ kind, path }: ModuleEntry, settings: Settings): OtherStep | null {
  const step = { kind: 'other', type: kind, path, settings } as const;
  for (const key of READ_LATER[kind] ?? []) settings.get(key);
  if (kind === MASK || kind === TOKEN_POOLING)
    return { ...step, input: TOKENS, output: TOKENS, shape: (given) => given };
  if (kind === LOGIT_SCORE) {
    const input = settings.text('module_input_name', 'causal_logits');
    return { ...step, input, output: SCORES, shape: () => ({ perToken: false, width: 1 }) };
  }
  if (!SPARSE_MODULES.includes(kind)) return null;
  const isCode = kind === 'SparseAutoEncoder';
  const shape: OtherStep['shape'] = ({ perToken, width }) => {
    if (!isCode) return { perToken: false, width };
    const own = settings.count('input_dim', undefined, 1);
    const expected = `a module for vectors of width ${width}, the output of the module before`;
    if (perToken || own !== width) throw invalidFile(settings.file, expected, `input_dim ${own}`);
    return { perToken: false, width: settings.count('hidden_dim', 512, 1) };
  };
  return { ...step, input: VECTORS, output: VECTORS, shape };
}

/** Reads `query_expansion` of a Transformer in `path`; null if there is none. */
export async function readExpansion(
  settings: Settings,
  path: string,
  { folder, signal }: Reading,
): Promise<QueryExpansion | null> {
  const given = settings.record('query_expansion');
  if (!given) return null;
  const known = ['strategy', 'attend', 'token', 'length'];
  for (const [key] of given.entries())
    if (!known.includes(key))
      throw given.unsupported(key, `one of ${known.join(', ')}`, JSON.stringify(given.get(key)));
  const strategy = given.text('strategy', '');
  if (strategy !== 'fixed' && strategy !== 'min') throw given.wrong('strategy', "'fixed' or 'min'", strategy);
  const length = given.count('length', undefined, 1);
  const least = settings.get('query_length');
  if (typeof least === 'number' && least < length)
    throw settings.wrong('query_length', `at least ${length}, the length of query_expansion`, least);
  const tokenizer = await Settings.in(folder, `${path === '' ? '' : `${path}/`}tokenizer_config.json`, signal);
  if (tokenizer?.get('padding_side') === 'left')
    throw tokenizer.unsupported('padding_side', "'right' for a model with query_expansion", "'left'");
  const special = ['mask_token', 'eos_token'].map((key) => {
    const token = tokenizer?.get(key) as string | { content?: unknown } | undefined;
    return typeof token === 'object' ? token.content : token;
  });
  const token = [given.get('token'), ...special].find((each) => typeof each === 'string');
  return { strategy, length, token: token ?? null, attends: given.flag('attend', false) };
}

/** Variables of `apply_chat_template` that change more than the rendered text. */
const REFUSED = ['continue_final_message', 'return_assistant_tokens_mask', 'sanitize_control_tokens', 'tokenize'];

/** Reads how texts become messages. `message`: the entry of `modality_config`. */
export function readChat(message: Settings, settings: Settings, texts: TextSettings): ChatSettings {
  const format = message.text('format', 'auto');
  if (format !== 'auto' && format !== 'flat' && format !== 'structured')
    throw message.wrong('format', "'flat' or 'structured'", format);
  if (!texts.addSpecialTokens)
    throw settings.unsupported('processing_kwargs.text.add_special_tokens', 'none with a chat template', 'false');
  const call = settings.record('processing_kwargs')?.record('chat_template') ?? new Settings({}, settings.file);
  if (texts.expansion)
    throw settings.unsupported(
      'query_expansion',
      'null with a chat template',
      JSON.stringify(settings.get('query_expansion')),
    );
  const options: Record<string, unknown> = {};
  for (const [key, value] of call.entries()) {
    if (REFUSED.includes(key)) throw call.unsupported(key, 'none', JSON.stringify(value));
    if (key === 'max_length') texts.maxLength = call.count(key, undefined, 1);
    else if (key === 'truncation') texts.truncation = value !== false && value !== 'do_not_truncate';
    else if (!['restore_suffix', 'padding', 'return_tensors', 'return_dict'].includes(key)) options[key] = value;
  }
  return { format, options, restoresEnd: call.flag('restore_suffix', true), onlyPairs: false };
}
