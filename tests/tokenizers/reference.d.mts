/** Of a text and its special tokens: `ranges` in UTF-16 units of the text. */
export interface ReferenceEncoding {
  ids: number[];
  tokens: string[];
  ranges: number[][];
  types: number[];
}

/** What Hugging Face's tokenizers in Rust make of texts, or of pairs of texts; null for those on which they fail. */
export function encodings(json: object, inputs: [string, string?][]): Promise<(ReferenceEncoding | null)[]>;

/** The texts that Hugging Face's tokenizers in Rust make of ids, special tokens included. */
export function decodings(json: object, ids: number[][]): Promise<string[]>;
