/** The settings of a sentence-transformers folder, as sentence-transformers.ts and other-modules.ts read them. */
import type { SignalLike } from '../../base/platform.js';
import type { ModelFolder } from '../../io/files.js';
import type { Settings } from '../../io/settings.js';
import type { ChatSettings, ChatTemplate } from '../../text/chat-template.js';
import { type Step, VECTORS } from './steps.js';

/** How texts become tokens. */
export interface TextSettings {
  /** The maximum number of tokens that the folder's modules set; null: the tokenizer's applies. */
  maxLength: number | null;
  /** The maximum number of tokens for a task, such as `query`; it replaces `maxLength`. */
  taskLengths: Partial<Record<string, number>>;
  /** Whether texts are lower-cased before tokenization. */
  lowerCase: boolean;
  /** Whether texts are cut to the maximum length. 'only_first': not the second texts of pairs. */
  truncation: boolean | 'only_first';
  /** How Python pads texts: to the maximum length or not, and to a multiple of a number. */
  padding: { isFull: boolean; multiple: number };
  /** Whether the tokenizer adds its special tokens. */
  addSpecialTokens: boolean;
  /** Whether the second text of a pair has another token type; null: the tokenizer's class decides. */
  returnTokenTypeIds: boolean | null;
  /** How queries are padded for late interaction; null: not at all. */
  expansion: QueryExpansion | null;
  /** How the chat template is used; null: texts are not rendered as messages. */
  chat: ChatSettings | null;
  /** The chat template, once the model has been loaded. */
  template: ChatTemplate | null;
}

/** `query_expansion` of a Transformer. */
export interface QueryExpansion {
  /** 'fixed': `length` is also the maximum length of queries. */
  strategy: 'fixed' | 'min';
  /** The least number of tokens. */
  length: number;
  /** The token for padding; null: the mask token. */
  token: string | null;
  /** Whether tokens attend to the padding. */
  attends: boolean;
}

/** The folder's configuration of text vectors. */
export interface SentenceConfig {
  /** The modules, in order. For a folder with a Router: those for texts without a task. */
  steps: Step[];
  texts: TextSettings;
  /** The prompts by name, such as { query: 'query: ', document: 'passage: ' }. */
  prompts: Record<string, string>;
  defaultPrompt: string | null;
  /** The path of the model's files, with a trailing slash; '' for the root. */
  modelFolder: string;
  /** config_sentence_transformers.json or, for Stanford's ColBERTs, artifact.metadata. */
  general: Settings | null;
  similarity: SimilarityFunction;
  /** The number of leading entries of each vector that the folder keeps, after all modules; null: all. */
  dimensions: number | null;
  /** The chains of modules for texts with a task, if the folder has a Router. */
  routes: Routes | null;
}

/** The chains of modules of a folder with a Router. */
export interface Routes {
  /** The different chains. The first is that for texts without a task or, if those are rejected, of the first route. */
  chains: SentenceConfig[];
  /**
   * The position of the chain for a task: `query`, `document` or another one that the folder names.
   * @throws HeedError INVALID_ARGUMENT if no route is for the task
   */
  of(task: string | undefined): number;
}

export const SIMILARITY_FUNCTIONS = ['cosine', 'dot', 'euclidean', 'manhattan'] as const;
/** The similarity for which a model's vectors are meant. */
export type SimilarityFunction = (typeof SIMILARITY_FUNCTIONS)[number];

/** A module as modules.json, or a Router, lists it. */
export interface ModuleEntry {
  /** The class, without the names of its Python modules. */
  kind: string;
  /** The class, with the names of its Python modules. */
  type: string;
  path: string;
  name?: unknown;
}

/** What reading a module may use. */
export interface Reading {
  folder: ModelFolder;
  signal: SignalLike | undefined;
  texts: TextSettings;
  /** The file that lists the module. */
  file: string;
}

/** The names of the values that a module takes and gives. */
export function namesIn(settings: Settings, fallback = VECTORS): { input: string; output: string } {
  const input = settings.text('module_input_name', fallback);
  return { input, output: settings.text('module_output_name', input) };
}
