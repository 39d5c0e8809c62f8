/** The types of the components of tokenizer.json, and of the functions that make them. */
import type { Steps } from '../base/event-loop.js';
import type { Aligned } from './alignment.js';
import type { Config } from './tokenizer-settings.js';
import type { VocabularyModel } from './vocabulary.js';

/** Normalizes a text. */
export type Normalizer = (source: Aligned) => Steps<Aligned>;

/** Splits a text into pieces, which may be empty. */
export type PreTokenizer = (source: Aligned) => Aligned[];

/** Changes tokens into parts of a text, which are joined at the end. */
export type Decoder = (tokens: string[]) => string[];

/** A special token of a template. */
export interface Special {
  id: number;
  text: string;
}

/** The tokens of a text, or special tokens, with their types. */
export interface Encoding<T> {
  tokens: (T | Special)[];
  types: number[];
}

/** Maps the encodings of a text, or of a text and its pair, to those of the whole input. */
export type PostProcessor = <T>(encodings: Encoding<T>[], withSpecial: boolean) => Encoding<T>[];

/** Trims spaces from the ranges of tokens in a text. `isFirst`: whether the text is the beginning of the input. */
export type Trim = (tokens: { text: string; start: number; end: number }[], text: string, isFirst: boolean) => void;

/** The functions that make the components of a tokenizer.json. They throw UNSUPPORTED for unknown types and options. */
export interface ComponentMakers {
  normalizerOf(config: Config): Normalizer;
  preTokenizerOf(config: Config): PreTokenizer;
  modelOf(config: Config): VocabularyModel;
  postProcessorOf(config: Config): PostProcessor;
  trimsOf(config: Config): Trim[];
  decoderOf(config: Config): Decoder;
}
