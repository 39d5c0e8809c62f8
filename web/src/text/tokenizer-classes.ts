/**
 * The tokenizer classes of transformers 5, which build the components of a tokenizer from their arguments, the settings
 * in tokenizer_config.json, and take only the vocabulary and sometimes the post-processor from tokenizer.json. Imported
 * on demand. Source: transformers 5.24, models/.../tokenization_*.py.
 */
import type { Settings } from '../io/settings.js';
import { bertNormalizer } from './bert-normalizer.js';
import type { Config } from './tokenizer-settings.js';

/** The named special tokens, in the order in which transformers adds them. */
export const NAMED = [
  'bos_token',
  'eos_token',
  'unk_token',
  'sep_token',
  'pad_token',
  'cls_token',
  'mask_token',
] as const;
export type Named = (typeof NAMED)[number];

/** What a class builds its components from. */
export interface Arguments {
  settings: Settings;
  /** The text of a named special token. */
  named(key: Named): string;
  /** A boolean setting. As in Python, null is false. */
  truthy(key: string, fallback: boolean): boolean;
  /** The id of a token. */
  idOf(token: string): number;
  /** The id of the first of the vocabulary's tokens that has a text and, if given, a score; undefined if none has. */
  unigramId(token: string, score?: number): number | undefined;
  /** The Precompiled normalizer in tokenizer.json. */
  precompiled: Config | null;
}

export interface TokenizerClass {
  /** The type of the vocabulary's model. Absent: tokenizer.json's components are used. */
  model?: 'BPE' | 'Unigram' | 'WordPiece' | undefined;
  /** The default special tokens. */
  names?: Partial<Record<Named, string>> | undefined;
  /** The default special tokens with names of the class's own. */
  specific?: Record<string, string> | undefined;
  /** Whether `token_type_ids` is among its default `model_input_names`. */
  hasTypes?: boolean | undefined;
  /** Whether the mask token strips the spaces before it if the settings name it without its properties. */
  maskStrips?: boolean | undefined;
  /** The default `additional_special_tokens`. `given`: those of special_tokens_map.json. */
  additional?: ((args: Arguments, given: unknown[] | undefined) => unknown[]) | undefined;
  /** The options of the model. */
  options?: ((args: Arguments) => object) | undefined;
  normalizer?: ((args: Arguments) => Config | null) | undefined;
  preTokenizer?: ((args: Arguments) => Config | null) | undefined;
  decoder?: ((args: Arguments) => Config | null) | undefined;
  /** Replaces the post-processor of tokenizer.json. */
  postProcessor?: ((args: Arguments) => Config) | undefined;
  /** Is used if tokenizer.json has no post-processor. */
  ownPostProcessor?: ((args: Arguments) => Config) | undefined;
  /** How all special tokens are added again at the end: as plain special tokens, or with their properties. */
  readds?: 'plain' | 'own' | undefined;
  /** Whether a missing post-processor in tokenizer.json leaves the tokenizer without one. */
  resetsPostProcessor?: boolean | undefined;
  /** Why heed cannot tokenize texts as this class does. */
  refused?: string | undefined;
}

const MARK = '\u2581';

const sequence = (key: 'normalizers' | 'pretokenizers' | 'decoders', steps: (Config | null)[]): Config => ({
  type: 'Sequence',
  [key]: steps.filter((step) => step !== null),
});
const normalizers = (...steps: (Config | null)[]) => sequence('normalizers', steps);
const preTokenizers = (...steps: (Config | null)[]) => sequence('pretokenizers', steps);
const decoders = (...steps: (Config | null)[]) => sequence('decoders', steps);
const replace = (pattern: { String: string } | { Regex: string }, content: string): Config => ({
  type: 'Replace',
  pattern,
  content,
});
const QUOTES = [replace({ String: '``' }, '"'), replace({ String: "''" }, '"')];
const SPACES = replace({ Regex: ' {2,}' }, ' ');
const trimRight: Config = { type: 'Strip', strip_left: false, strip_right: true };

const metaspace = (scheme: string, split = true): Config => ({
  type: 'Metaspace',
  replacement: MARK,
  prepend_scheme: scheme,
  split,
});
const wordsAndMetaspace = (scheme: string) => preTokenizers({ type: 'WhitespaceSplit' }, metaspace(scheme));
/** 'always' or 'never', by `add_prefix_space`. */
const schemeOf = (args: Arguments) => (args.truthy('add_prefix_space', true) ? 'always' : 'never');

const byteLevel = (prefix: boolean, splits = true): Config => ({
  type: 'ByteLevel',
  add_prefix_space: prefix,
  trim_offsets: true,
  use_regex: splits,
});
const bytes = () => byteLevel(true);
const byteFallbackDecoder = (...more: Config[]) =>
  decoders(replace({ String: MARK }, ' '), { type: 'ByteFallback' }, { type: 'Fuse' }, ...more);

/** A part of a template: a token, or the text `$A` or `$B`, with its type. */
type Part = [content: string, type?: number];

function template(args: Arguments, single: Part[], pair: Part[]): Config {
  const tokens: Record<string, object> = {};
  const parts = (list: Part[]) =>
    list.map(([content, type_id = 0]) => {
      if (content === '$A' || content === '$B') return { Sequence: { id: content.slice(1), type_id } };
      tokens[content] = { id: content, ids: [args.idOf(content)], tokens: [content] };
      return { SpecialToken: { id: content, type_id } };
    });
  return { type: 'TemplateProcessing', single: parts(single), pair: parts(pair), special_tokens: tokens };
}

/** [CLS] A [SEP] B [SEP], where the second text and its end have type 1. */
function bertTemplate(args: Arguments): Config {
  const [cls, sep] = [args.named('cls_token'), args.named('sep_token')];
  const single: Part[] = [[cls], ['$A'], [sep]];
  return template(args, single, [...single, ['$B', 1], [sep, 1]]);
}

/** <s> A </s> </s> B </s>, all of type 0. */
function doubleTemplate(args: Arguments, first: Named, last: Named): Config {
  const [start, end] = [args.named(first), args.named(last)];
  const single: Part[] = [[start], ['$A'], [end]];
  return template(args, single, [...single, [end], ['$B'], [end]]);
}

/** A </s> B </s>, all of type 0. */
function endTemplate(args: Arguments): Config {
  const end = args.named('eos_token');
  return template(args, [['$A'], [end]], [['$A'], [end], ['$B'], [end]]);
}

function robertaProcessing(
  args: Arguments,
  trims: boolean,
  prefix: boolean,
  sep: Named = 'sep_token',
  cls: Named = 'cls_token',
) {
  const entry = (key: Named) => [args.named(key), args.idOf(args.named(key))];
  return { type: 'RobertaProcessing', sep: entry(sep), cls: entry(cls), trim_offsets: trims, add_prefix_space: prefix };
}

const BERT_NAMES = {
  unk_token: '[UNK]',
  sep_token: '[SEP]',
  pad_token: '[PAD]',
  cls_token: '[CLS]',
  mask_token: '[MASK]',
};
const ALBERT_NAMES = { ...BERT_NAMES, bos_token: '[CLS]', eos_token: '[SEP]', unk_token: '<unk>', pad_token: '<pad>' };
const ROBERTA_NAMES = {
  bos_token: '<s>',
  eos_token: '</s>',
  unk_token: '<unk>',
  sep_token: '</s>',
  pad_token: '<pad>',
  cls_token: '<s>',
  mask_token: '<mask>',
};
const QUESTION = '[QUESTION]';
const END = '<|endoftext|>';

const bert: TokenizerClass = {
  model: 'WordPiece',
  names: BERT_NAMES,
  hasTypes: true,
  options: (args) => ({ unk_token: args.named('unk_token') }),
  normalizer: ({ settings }) => bertNormalizer(settings),
  preTokenizer: () => ({ type: 'BertPreTokenizer' }),
  decoder: () => ({ type: 'WordPiece', prefix: '##', cleanup: true }),
  postProcessor: bertTemplate,
};
/** BERT's class with the components of tokenizer.json. */
const bertOfFile: TokenizerClass = { names: BERT_NAMES, hasTypes: true, postProcessor: bertTemplate };
/** DPR's classes consume `do_lower_case`, so that BERT's default applies: lower-case. */
const dpr: TokenizerClass = { ...bert, normalizer: ({ settings }) => bertNormalizer(settings, { lowers: true }) };

/** Byte-level BPE, as GPT-2's. */
const gpt2: TokenizerClass = {
  model: 'BPE',
  names: { unk_token: END, bos_token: END, eos_token: END },
  options: () => ({ continuing_subword_prefix: '', end_of_word_suffix: '' }),
  normalizer: () => null,
  preTokenizer: (args) => byteLevel(args.truthy('add_prefix_space', false)),
  decoder: bytes,
};
const roberta: TokenizerClass = {
  ...gpt2,
  names: ROBERTA_NAMES,
  postProcessor: (args) =>
    robertaProcessing(args, args.truthy('trim_offsets', true), args.truthy('add_prefix_space', false)),
};

const qwen = (letters: string, others: string): TokenizerClass => ({
  ...gpt2,
  names: { unk_token: END, eos_token: END, pad_token: END },
  normalizer: () => ({ type: 'NFC' }),
  preTokenizer: (args) => {
    const pattern = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?${letters}+|\\p{N}| ?[^\\s${others}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+`;
    return preTokenizers(
      { type: 'Split', pattern: { Regex: pattern }, behavior: 'Isolated', invert: false },
      byteLevel(args.truthy('add_prefix_space', false), false),
    );
  },
});

const gemma: TokenizerClass = {
  model: 'BPE',
  names: {
    unk_token: '<unk>',
    bos_token: '<bos>',
    eos_token: '<eos>',
    pad_token: '<pad>',
    mask_token: '<mask>',
  },
  options: (args) => ({ unk_token: args.named('unk_token'), fuse_unk: true, byte_fallback: true }),
  normalizer: () => replace({ String: ' ' }, MARK),
  preTokenizer: () => ({ type: 'Split', pattern: { String: ' ' }, behavior: 'MergedWithPrevious', invert: false }),
  decoder: () => byteFallbackDecoder(),
};

/** Unigram models of SentencePiece. `unknown`: the id of the unknown token. */
const unigram = (unknown: number | ((args: Arguments) => number)) => ({
  model: 'Unigram' as const,
  options: (args: Arguments) => ({
    unk_id: typeof unknown === 'number' ? unknown : unknown(args),
    byte_fallback: false,
  }),
});

const albert: TokenizerClass = {
  ...unigram(1),
  names: ALBERT_NAMES,
  normalizer: (args) =>
    normalizers(
      ...QUOTES,
      ...(args.truthy('keep_accents', false) ? [] : [{ type: 'NFKD' }, { type: 'StripAccents' }]),
      args.truthy('do_lower_case', true) ? { type: 'Lowercase' } : null,
      args.precompiled,
    ),
  preTokenizer: (args) => wordsAndMetaspace(schemeOf(args)),
  decoder: (args) => metaspace(schemeOf(args)),
  ownPostProcessor: bertTemplate,
};

const xlmRoberta: TokenizerClass = {
  ...unigram(3),
  names: ROBERTA_NAMES,
  normalizer: ({ precompiled }) => precompiled,
  preTokenizer: (args) => wordsAndMetaspace(schemeOf(args)),
  decoder: (args) => metaspace(schemeOf(args)),
  postProcessor: (args) => doubleTemplate(args, 'bos_token', 'eos_token'),
};

/** The `<extra_id_{i}>` of T5. */
function sentinels(args: Arguments, given: unknown[] | undefined): unknown[] {
  const count = args.settings.count('extra_ids', 100);
  const all = Array.from({ length: count }, (_, i) => `<extra_id_${i}>`);
  return given ? [...given, ...(given.some((token) => contentOf(token).includes('<extra_id_')) ? [] : all)] : all;
}

const contentOf = (token: unknown): string =>
  typeof token === 'string' ? token : String((token as { content?: unknown } | null)?.content);

const t5: TokenizerClass = {
  ...unigram(2),
  names: { eos_token: '</s>', unk_token: '<unk>', pad_token: '<pad>' },
  additional: sentinels,
  normalizer: ({ precompiled }) => precompiled,
  preTokenizer: () => wordsAndMetaspace('always'),
  decoder: () => metaspace('always'),
  postProcessor: endTemplate,
};

const NOT_TEXTS = 'heed does not support its inputs besides texts';
const LANGUAGES = 'heed does not support tokens of languages and tasks';
const JIEBA = 'heed does not have the word segmentation of jieba';

/** The classes by name, without the suffix `Fast`. Others use tokenizer.json as it is. */
export const CLASSES: Record<string, TokenizerClass> = {
  BertTokenizer: bert,
  ConvBertTokenizer: bertOfFile,
  DistilBertTokenizer: { ...bert, hasTypes: false },
  DPRContextEncoderTokenizer: dpr,
  DPRQuestionEncoderTokenizer: dpr,
  DPRReaderTokenizer: { ...dpr, hasTypes: false },
  // DPR's fast classes inherit BERT's constructor.
  DPRContextEncoderTokenizerFast: bertOfFile,
  DPRQuestionEncoderTokenizerFast: bertOfFile,
  DPRReaderTokenizerFast: { ...bertOfFile, hasTypes: false },
  FunnelTokenizer: {
    ...bert,
    names: {
      unk_token: '<unk>',
      sep_token: '<sep>',
      pad_token: '<pad>',
      cls_token: '<cls>',
      mask_token: '<mask>',
      bos_token: '<s>',
      eos_token: '</s>',
    },
    hasTypes: false,
    normalizer: (args) => bertNormalizer(args.settings, { cleans: args.truthy('clean_text', true) }),
    decoder: ({ settings }) => ({
      type: 'WordPiece',
      prefix: settings.text('wordpieces_prefix', '##'),
      cleanup: true,
    }),
    postProcessor: (args) => {
      const [cls, sep] = [args.named('cls_token'), args.named('sep_token')];
      const single: Part[] = [[cls, 2], ['$A'], [sep]];
      return template(args, single, [...single, ['$B', 1], [sep, 1]]);
    },
  },
  MPNetTokenizer: {
    ...bert,
    names: { ...ROBERTA_NAMES, unk_token: '[UNK]' },
    hasTypes: false,
    maskStrips: true,
    postProcessor: (args) => robertaProcessing(args, true, false),
  },
  SplinterTokenizer: {
    ...bert,
    hasTypes: false,
    specific: { question_token: QUESTION },
    postProcessor: (args) => {
      const [cls, sep] = [args.named('cls_token'), args.named('sep_token')];
      const asked: Part[] = [[QUESTION], ['.']];
      const pair: Part[] =
        args.settings.text('padding_side', 'right') === 'right'
          ? [[cls], ['$A'], ...asked, [sep], ['$B', 1], [sep, 1]]
          : [[cls], ['$A'], [sep], ['$B', 1], ...asked, [sep, 1]];
      return template(args, [[cls], ['$A'], [sep]], pair);
    },
  },
  HerbertTokenizer: {
    model: 'BPE',
    names: {
      cls_token: '<s>',
      unk_token: '<unk>',
      pad_token: '<pad>',
      mask_token: '<mask>',
      sep_token: '</s>',
    },
    options: (args) => ({ unk_token: args.named('unk_token'), end_of_word_suffix: '</w>' }),
    normalizer: () => ({
      type: 'BertNormalizer',
      clean_text: true,
      handle_chinese_chars: true,
      strip_accents: false,
      lowercase: false,
    }),
    preTokenizer: () => ({ type: 'BertPreTokenizer' }),
    decoder: () => ({ type: 'BPEDecoder', suffix: '</w>' }),
    postProcessor: (args) => ({
      type: 'BertProcessing',
      sep: [args.named('sep_token'), 2],
      cls: [args.named('cls_token'), 0],
    }),
  },
  OpenAIGPTTokenizer: {
    model: 'BPE',
    names: { unk_token: '<unk>' },
    options: (args) => ({
      unk_token: args.named('unk_token'),
      continuing_subword_prefix: '',
      end_of_word_suffix: '</w>',
    }),
    normalizer: () => ({
      type: 'BertNormalizer',
      clean_text: true,
      handle_chinese_chars: true,
      strip_accents: null,
      lowercase: true,
    }),
    preTokenizer: () => ({ type: 'BertPreTokenizer' }),
    decoder: () => ({ type: 'BPEDecoder', suffix: '</w>' }),
  },

  GPT2Tokenizer: gpt2,
  CodeGenTokenizer: {
    ...gpt2,
    ownPostProcessor: () => ({ type: 'ByteLevel', add_prefix_space: true, trim_offsets: false, use_regex: true }),
  },
  BlenderbotTokenizer: {
    ...gpt2,
    names: ROBERTA_NAMES,
    maskStrips: true,
    preTokenizer: (args) => byteLevel(args.truthy('add_prefix_space', true)),
  },
  RobertaTokenizer: roberta,
  GPTNeoXTokenizer: {
    ...gpt2,
    names: { unk_token: END, bos_token: END, eos_token: END, pad_token: '<|padding|>' },
    normalizer: () => ({ type: 'NFC' }),
    postProcessor: (args) => template(args, [['$A']], [['$A'], ['$B', 1]]),
  },
  CohereTokenizer: {
    ...gpt2,
    names: {
      unk_token: '<UNK>',
      bos_token: '<BOS_TOKEN>',
      eos_token: '<|END_OF_TURN_TOKEN|>',
      pad_token: '<PAD>',
      cls_token: '<CLS>',
      sep_token: '<SEP>',
      mask_token: '<MASK_TOKEN>',
    },
    normalizer: () => ({ type: 'NFC' }),
    preTokenizer: (args) =>
      preTokenizers({ type: 'Digits', individual_digits: true }, byteLevel(args.truthy('add_prefix_space', false))),
    readds: 'own',
  },
  DebertaTokenizer: {
    ...gpt2,
    names: { ...BERT_NAMES, bos_token: '[CLS]', eos_token: '[SEP]' },
    hasTypes: true,
    postProcessor: (args) => doubleTemplate(args, 'cls_token', 'sep_token'),
  },
  Qwen2Tokenizer: { ...qwen('\\p{L}', '\\p{L}'), readds: 'plain' },
  Qwen3_5Tokenizer: qwen('[\\p{L}\\p{M}]', '\\p{L}\\p{M}'),
  CLIPTokenizer: {
    ...gpt2,
    names: { unk_token: END, bos_token: '<|startoftext|>', eos_token: END, pad_token: END },
    options: (args) => ({
      unk_token: args.named('unk_token'),
      continuing_subword_prefix: '',
      end_of_word_suffix: '</w>',
    }),
    normalizer: () => normalizers({ type: 'NFC' }, replace({ Regex: '\\s+' }, ' '), { type: 'Lowercase' }),
    preTokenizer: () => {
      const words = `<\\|startoftext\\|>|<\\|endoftext\\|>|'s|'t|'re|'ve|'m|'ll|'d|[\\p{L}]+|[\\p{N}]|[^\\s\\p{L}\\p{N}]+`;
      return preTokenizers(
        { type: 'Split', pattern: { Regex: words }, behavior: 'Removed', invert: true },
        byteLevel(false),
      );
    },
    postProcessor: (args) => robertaProcessing(args, false, false, 'eos_token', 'bos_token'),
  },
  NougatTokenizer: {
    ...gpt2,
    names: { unk_token: '<unk>', bos_token: '<s>', eos_token: '</s>', pad_token: '<pad>' },
    normalizer: () => ({ type: 'NFKC' }),
    preTokenizer: () => {
      const split = (text: string, behavior: string): Config => ({
        type: 'Split',
        pattern: { String: text },
        behavior,
        invert: false,
      });
      return preTokenizers(
        split('SPL1T-TH1S-Pl3A5E', 'Removed'),
        { type: 'Digits', individual_digits: true },
        split('[\\(\\)\\[\\]\\{\\}]|([!\\"#\\$%\\&\'\\*\\+,\\-\\./:;<=>\\?\\\\\\^_`\\|\\~])\\1*', 'Isolated'),
        split('\n', 'Isolated'),
        byteLevel(false),
      );
    },
    postProcessor: (args) =>
      template(args, [[args.named('bos_token')], ['$A'], [args.named('eos_token')]], [['$A'], ['$B', 1]]),
  },

  LlamaTokenizer: {
    model: 'BPE',
    names: { unk_token: '<unk>', bos_token: '<s>', eos_token: '</s>' },
    options: () => ({ fuse_unk: true, byte_fallback: true }),
    normalizer: () => null,
    preTokenizer: (args) => {
      const scheme = args.truthy('legacy', false) ? 'always' : 'first';
      return metaspace(addsPrefix(args) ? scheme : 'never', false);
    },
    decoder: (args) =>
      byteFallbackDecoder(...(addsPrefix(args) ? [{ type: 'Strip', content: ' ', start: 1, stop: 0 }] : [])),
  },
  GemmaTokenizer: gemma,
  Siglip2Tokenizer: { ...gemma, normalizer: () => normalizers({ type: 'Lowercase' }, replace({ String: ' ' }, MARK)) },
  Tipsv2Tokenizer: {
    model: 'BPE',
    names: { unk_token: '<unk>', pad_token: '<pad>' },
    options: () => ({ fuse_unk: true, byte_fallback: true }),
    normalizer: (args) =>
      normalizers(args.truthy('do_lower_case', true) ? { type: 'Lowercase' } : null, args.precompiled),
    preTokenizer: () => wordsAndMetaspace('always'),
    decoder: () => decoders(metaspace('always'), { type: 'ByteFallback' }, { type: 'Fuse' }),
  },
  ReformerTokenizer: {
    model: 'BPE',
    names: { eos_token: '</s>', unk_token: '<unk>' },
    options: (args) => ({ unk_token: args.named('unk_token'), fuse_unk: true }),
    normalizer: ({ precompiled }) => precompiled && normalizers(precompiled, SPACES),
    preTokenizer: () => metaspace('always'),
    decoder: () => metaspace('always'),
    readds: 'own',
  },

  AlbertTokenizer: albert,
  FNetTokenizer: { names: ALBERT_NAMES, hasTypes: true },
  BarthezTokenizer: {
    ...unigram(3),
    names: ROBERTA_NAMES,
    maskStrips: true,
    normalizer: () => normalizers(replace({ Regex: '\\s{2,}|[\\n\\r\\t]' }, ' '), { type: 'NFC' }, trimRight),
    preTokenizer: (args) => metaspace(schemeOf(args)),
    decoder: (args) => metaspace(schemeOf(args)),
  },
  BigBirdTokenizer: {
    ...unigram((args) => args.unigramId(args.named('unk_token'), 0) ?? 100),
    names: { ...ROBERTA_NAMES, sep_token: '[SEP]', mask_token: '[MASK]', cls_token: '[CLS]' },
    maskStrips: true,
    normalizer: () => normalizers(replace({ Regex: ' {2,}' }, MARK)),
    preTokenizer: (args) => metaspace(schemeOf(args)),
    decoder: (args) => metaspace(schemeOf(args)),
    postProcessor: bertTemplate,
  },
  CamembertTokenizer: {
    ...xlmRoberta,
    ...unigram((args) => args.unigramId(args.named('unk_token')) ?? 0),
    maskStrips: true,
    additional: (_, given) => given ?? ['<s>NOTUSED', '</s>NOTUSED', '<unk>NOTUSED'],
  },
  DebertaV2Tokenizer: {
    ...unigram((args) => args.unigramId(args.named('unk_token'), 0) ?? args.settings.count('unk_id', 1)),
    names: { ...BERT_NAMES, bos_token: '[CLS]', eos_token: '[SEP]' },
    hasTypes: true,
    normalizer: (args) =>
      normalizers(
        args.truthy('do_lower_case', false) ? { type: 'Lowercase' } : null,
        replace({ Regex: '\\s{2,}|[\\n\\r\\t]' }, ' '),
        { type: 'NFC' },
        trimRight,
      ),
    preTokenizer: (args) =>
      preTokenizers(
        args.truthy('split_by_punct', false) ? { type: 'Punctuation', behavior: 'Isolated' } : null,
        metaspace(args.truthy('add_prefix_space', true) ? 'always' : 'first'),
      ),
    decoder: (args) => metaspace(args.truthy('add_prefix_space', true) ? 'always' : 'first'),
    postProcessor: bertTemplate,
  },
  RemBertTokenizer: {
    ...unigram(2),
    names: ALBERT_NAMES,
    normalizer: (args) =>
      normalizers(
        ...QUOTES,
        SPACES,
        ...(args.truthy('keep_accents', true) ? [] : [{ type: 'NFKD' }, { type: 'StripAccents' }]),
        args.truthy('do_lower_case', false) ? { type: 'Lowercase' } : null,
        args.precompiled,
      ),
    preTokenizer: (args) => metaspace(schemeOf(args)),
    decoder: (args) => metaspace(schemeOf(args)),
    postProcessor: bertTemplate,
    readds: 'own',
    resetsPostProcessor: true,
  },
  XLMRobertaTokenizer: xlmRoberta,
  XLNetTokenizer: {
    ...unigram(({ settings }) => settings.count('unk_id', 0)),
    names: { ...ROBERTA_NAMES, sep_token: '<sep>', cls_token: '<cls>' },
    maskStrips: true,
    additional: (_, given) => given ?? ['<eop>', '<eod>'],
    normalizer: (args) =>
      normalizers(
        ...QUOTES,
        { type: 'NFKD' },
        { type: 'StripAccents' },
        args.truthy('do_lower_case', false) ? { type: 'Lowercase' } : null,
        args.precompiled,
      ),
    preTokenizer: () => wordsAndMetaspace('always'),
    decoder: () => metaspace('always'),
    postProcessor: (args) => {
      const [cls, sep] = [args.named('cls_token'), args.named('sep_token')];
      return template(args, [['$A'], [sep], [cls, 2]], [['$A'], [sep], ['$B', 1], [sep, 1], [cls, 2]]);
    },
  },
  PegasusTokenizer: {
    ...unigram((args) => args.unigramId(args.named('unk_token'), 0) ?? 0),
    names: { pad_token: '<pad>', eos_token: '</s>', unk_token: '<unk>', mask_token: '<mask_2>' },
    additional: ({ settings }, given) => {
      const sentence = settings.text('mask_token_sent', '<mask_1>');
      const count = settings.count('offset', 103);
      const unknown = Array.from({ length: Math.max(0, count - 2) }, (_, i) => `<unk_${i + 2}>`);
      return [...(given?.some((token) => contentOf(token) === sentence) ? [] : [sentence]), ...unknown];
    },
    normalizer: ({ precompiled }) => normalizers(precompiled ?? replace({ Regex: '\\n' }, ' '), SPACES),
    preTokenizer: () => metaspace('always'),
    decoder: () => metaspace('always'),
    postProcessor: (args) => {
      const end = args.named('eos_token');
      return template(args, [['$A'], [end]], [['$A'], ['$B'], [end]]);
    },
  },
  T5Tokenizer: t5,
  LasrTokenizer: { ...t5, ...unigram(3) },
  VideoPrismTokenizer: { ...t5, postProcessor: undefined },
  UdopTokenizer: {
    ...t5,
    ...unigram((args) => args.unigramId(args.named('unk_token')) ?? 2),
    names: { eos_token: '</s>', sep_token: '</s>', unk_token: '<unk>', pad_token: '<pad>' },
    additional: undefined,
    normalizer: () => null,
  },
  XGLMTokenizer: {
    ...unigram(3),
    names: {
      bos_token: '<s>',
      eos_token: '</s>',
      unk_token: '<unk>',
      sep_token: '</s>',
      pad_token: '<pad>',
      cls_token: '<s>',
    },
    additional: (_, given = []) => {
      const known = given.map(contentOf);
      return [...given, ...Array.from({ length: 7 }, (_, i) => `<madeupword${i}>`).filter((w) => !known.includes(w))];
    },
    normalizer: ({ precompiled }) => normalizers(precompiled, SPACES),
    preTokenizer: (args) => metaspace(schemeOf(args)),
    decoder: (args) => metaspace(schemeOf(args)),
    postProcessor: (args) => {
      const end = args.named('eos_token');
      return template(args, [[end], ['$A']], [[end], ['$A'], [end], [end], ['$B']]);
    },
  },

  CpmTokenizer: { refused: JIEBA },
  RoFormerTokenizer: { refused: JIEBA },
  EsmcTokenizer: { refused: 'heed does not support sequences of proteins' },
  LayoutLMv2Tokenizer: { refused: NOT_TEXTS },
  LayoutLMv3Tokenizer: { refused: NOT_TEXTS },
  LayoutXLMTokenizer: { refused: NOT_TEXTS },
  LukeTokenizer: { refused: NOT_TEXTS },
  MarkupLMTokenizer: { refused: NOT_TEXTS },
  MLukeTokenizer: { refused: NOT_TEXTS },
  CodeLlamaTokenizer: { refused: LANGUAGES },
  MBartTokenizer: { refused: LANGUAGES },
  MBart50Tokenizer: { refused: LANGUAGES },
  NllbTokenizer: { refused: LANGUAGES },
  SeamlessM4TTokenizer: { refused: LANGUAGES },
  WhisperTokenizer: { refused: LANGUAGES },
};

/** Llama's `add_prefix_space`, where null is the default. */
const addsPrefix = (args: Arguments) => args.settings.flag('add_prefix_space', true);

/** Names of earlier versions. */
const ALIASES: Record<string, string> = {
  BartTokenizer: 'RobertaTokenizer',
  ElectraTokenizer: 'BertTokenizer',
  LayoutLMTokenizer: 'BertTokenizer',
  LEDTokenizer: 'RobertaTokenizer',
  LongformerTokenizer: 'RobertaTokenizer',
  LxmertTokenizer: 'BertTokenizer',
  MobileBertTokenizer: 'BertTokenizer',
  MvpTokenizer: 'RobertaTokenizer',
  SqueezeBertTokenizer: 'BertTokenizer',
};

/** The classes of model types whose tokenizer_config.json names none. */
const OF_MODELS: Record<string, string> = {
  AlbertTokenizer: 'albert yoso',
  BarthezTokenizer: 'barthez',
  BertTokenizer:
    'align bark bert blip bros chinese_clip convbert distilbert electra ernie flava git grounding-dino layoutlm lxmert megatron-bert mm-grounding-dino mobilebert nezha nomic_bert qdqbert realm retribert squeezebert tvp vilt visual_bert',
  BigBirdTokenizer: 'big_bird',
  BlenderbotTokenizer: 'blenderbot',
  CLIPTokenizer: 'aimv2 clip clipseg groupvit omdet-turbo oneformer owlv2 owlvit sam3 sam3_video xclip',
  CamembertTokenizer: 'camembert',
  CodeLlamaTokenizer: 'code_llama',
  CohereTokenizer: 'aya_vision cohere cohere2',
  DPRQuestionEncoderTokenizer: 'dpr',
  DebertaTokenizer: 'deberta',
  DebertaV2Tokenizer: 'deberta-v2',
  EsmcTokenizer: 'esmc esmfold2',
  FNetTokenizer: 'fnet',
  FunnelTokenizer: 'funnel',
  GPT2Tokenizer:
    'blip-2 codegen dbrx emu3 gpt2 gpt_neo gptj hyperclovax_vision_v2 instructblip instructblipvideo jais2 opt phi starcoder2',
  GPTNeoXTokenizer: 'falcon_mamba gpt_neox mamba mamba2 mpt olmo olmoe rwkv xlstm',
  GemmaTokenizer:
    'diffusion_gemma gemma gemma2 gemma3 gemma3_text gemma3n gemma3n_text recurrent_gemma shieldgemma2 t5gemma zaya',
  HerbertTokenizer: 'herbert',
  LasrTokenizer: 'lasr_ctc lasr_encoder',
  LayoutLMv2Tokenizer: 'layoutlmv2',
  LayoutLMv3Tokenizer: 'layoutlmv3',
  LayoutXLMTokenizer: 'layoutxlm',
  LlamaTokenizer: 'idefics idefics2',
  LukeTokenizer: 'luke',
  MBart50Tokenizer: 'mbart50',
  MBartTokenizer: 'mbart',
  MLukeTokenizer: 'mluke',
  MPNetTokenizer: 'mpnet',
  MarkupLMTokenizer: 'markuplm',
  NllbTokenizer: 'nllb nllb-moe',
  NougatTokenizer: 'nougat pp_formulanet',
  OpenAIGPTTokenizer: 'openai-gpt',
  PegasusTokenizer: 'pegasus',
  Qwen2Tokenizer:
    'audioflamingo3 colqwen2 cosmos3_omni dots3_note fun_asr_nano hunyuan_vl internvl lighton_ocr moss_transcribe_diarize ovis2 qianfan_ocr qwen2 qwen2_5_omni qwen2_5_vl qwen2_audio qwen2_moe qwen2_vl qwen3 qwen3_asr qwen3_moe qwen3_next qwen3_omni_moe qwen3_vl qwen3_vl_moe vibevoice',
  Qwen3_5Tokenizer: 'qwen3_5 qwen3_5_moe qwen3_5_moe_text qwen3_5_text qwen4_exp',
  ReformerTokenizer: 'reformer',
  RemBertTokenizer: 'rembert',
  RoFormerTokenizer: 'roformer',
  RobertaTokenizer:
    'bart bridgetower clap data2vec-text florence2 ibert led lilt longformer mega mra mvp roberta roberta-prelayernorm',
  SeamlessM4TTokenizer: 'seamless_m4t seamless_m4t_v2',
  Siglip2Tokenizer: 'siglip2',
  SplinterTokenizer: 'splinter',
  T5Tokenizer: 'mt5 musicgen musicgen_melody switch_transformers t5',
  Tipsv2Tokenizer: 'tipsv2',
  UdopTokenizer: 'udop',
  VideoPrismTokenizer: 'videoprism',
  WhisperTokenizer: 'whisper',
  XGLMTokenizer: 'xglm',
  XLMRobertaTokenizer: 'gte jina_embeddings_v3 metaclip_2 trocr xlm-roberta xmod',
  XLNetTokenizer: 'xlnet',
};

/** Model types whose tokenizer is tokenizer.json, whichever class tokenizer_config.json names. */
const OF_FILE = [
  'EvollaModel arctic aria beam bigbird_pegasus camembertv2-base canary chatlm cohere_asr ernie4_5',
  'ernie4_5_moe flex_olmo fuyu glm glm4 glm4_moe glm4_moe_lite glm4v glm4v_moe glm_image glmasr got_ocr2',
  'gpt_bigcode gradium_phonon_tts granite granitemoe granitemoehybrid granitemoeshared h2ovl_chat',
  'hyperclovax hyperclovax_vlm internlm2 internlm3 iquestcoder jamba kimi_k25 kimi_linear kosmos-2 llava',
  'llava_next mimo_v2_flash minicpm3 minicpm_ocr minicpmv minicpmv4_6 minicpmv4_7 minimax_m2 ministral',
  'ministral3 mistral mistral3 mistral_large4 mixtral modernbert modernbert-decoder molmo molmo2',
  'nemo_speechlm nemotron nvfp4 nystromformer olmo2 olmo3 olmo_hybrid omniasr opencua openvla paddleocr_vl',
  'pegasus_x persimmon phi3 phi3_v phimoe pix2struct pixtral pocket_tts smolvlm stablelm step3_vl umt5',
  'vipllava voxtral voxtral_realtime xlm-roberta-xl',
].flatMap((names) => names.split(' '));

/** Model types whose own class replaces the class that tokenizer_config.json names. */
const REPLACED = 'hyperclovax_vision_v2 qwen2 qwen3_5 qwen3_5_moe qwen3_5_moe_text qwen4_exp siglip2'.split(' ');

/**
 * The class that AutoTokenizer chooses. `given`: `tokenizer_class` of tokenizer_config.json or config.json. `type`:
 * `model_type` of config.json.
 */
export function classOf(given: string | undefined, type: string | undefined, isByteLevel: boolean): TokenizerClass {
  const registered = Object.keys(OF_MODELS).find(
    (name) => type !== undefined && OF_MODELS[name]!.split(' ').includes(type),
  );
  const fromFile = {};
  if (given === undefined) return CLASSES[registered ?? ''] ?? fromFile;
  if (type !== undefined && OF_FILE.includes(type)) return fromFile;
  const bare = given.replace(/Fast$/, '');
  if (bare === 'LlamaTokenizer' && isByteLevel && !REPLACED.includes(type ?? '')) return fromFile;
  if (type !== undefined && REPLACED.includes(type)) return CLASSES[registered!]!;
  const keepsSuffix = registered !== undefined && registered !== bare;
  const name = keepsSuffix && Object.hasOwn(CLASSES, given) ? given : bare;
  const found = ALIASES[name] ?? name;
  return Object.hasOwn(CLASSES, found) ? CLASSES[found]! : fromFile;
}
