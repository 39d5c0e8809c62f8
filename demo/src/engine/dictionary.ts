/** The dictionary index that ships with the model: 20,000 words, each with an int8 vector and its scale. */
import vectorsUrl from 'heed/model/dictionary/index.safetensors?url';
import wordsUrl from 'heed/model/dictionary/words.txt?url';
import type { PretrainedModel } from 'heed';
import type { HeadMask } from './models';

export interface Definition {
  words: { word: string; score: number }[];
  searched: number;
  milliseconds: number;
}

const shownWords = 12;

export class Dictionary {
  private constructor(
    private readonly words: string[],
    private readonly vectors: Int8Array,
    private readonly scales: Float32Array,
    private readonly dimensions: number,
  ) {}

  static async load(): Promise<Dictionary> {
    const [words, index] = await Promise.all([fetched(wordsUrl), fetched(vectorsUrl)]);
    const { tensors, start } = safetensorsHeader(index);
    const { shape, data_offsets: vectors } = tensors.vectors!;
    const { data_offsets: scales } = tensors.vectors_scale!;
    return new Dictionary(
      new TextDecoder().decode(words).trim().split('\n'),
      new Int8Array(index, start + vectors[0], vectors[1] - vectors[0]),
      new Float32Array(index.slice(start + scales[0], start + scales[1])),
      shape[1]!,
    );
  }

  async search(model: PretrainedModel, description: string, headMask: HeadMask): Promise<Definition> {
    const start = performance.now();
    const { dimensions, vectors, scales } = this;
    const query = await model.embed([description], { dimensions, normalize: true, ...(headMask.length && { headMask }) });
    const scores = this.words.map((word, i) => {
      let sum = 0;
      for (let j = 0, at = i * dimensions; j < dimensions; j++) sum += query.data[j]! * vectors[at + j]!;
      return { word, score: sum * scales[i]! };
    });
    const words = scores.sort((a, b) => b.score - a.score).slice(0, shownWords);
    return { words, searched: this.words.length, milliseconds: performance.now() - start };
  }
}

async function fetched(url: string): Promise<ArrayBuffer> {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`The dictionary could not be loaded: status ${response.status} from ${url}.`);
  return response.arrayBuffer();
}

type Header = Record<string, { dtype: string; shape: number[]; data_offsets: [number, number] }>;

/** The format's head: its length, then JSON; tensors follow. */
function safetensorsHeader(file: ArrayBuffer): { tensors: Header; start: number } {
  const length = Number(new DataView(file).getBigUint64(0, true));
  return { tensors: JSON.parse(new TextDecoder().decode(new Uint8Array(file, 8, length))) as Header, start: 8 + length };
}
