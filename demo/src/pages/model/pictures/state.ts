/** The reader's pictures: their vectors, and those nearest to a text or to one of the pictures. */
import { effect, type ReadonlySignal, signal, untracked } from '@preact/signals';
import { semanticSearch, Tensor } from 'heed';
import { asFailure, type Failure, inTurn, type OpenModel } from '../../../engine/heed';
import { text } from '../../../state/codecs';
import { latest } from '../../../state/latest';
import { urlState } from '../../../state/url';

export interface Picture {
  name: string;
  /** An object URL. */
  url: string;
  file: File;
  vector: Float32Array;
}

export interface Ranked {
  picture: Picture;
  score: number;
}

/** More would fill the page's memory with thumbnails. */
export const mostPictures = 500;
/** The best pictures that are shown. */
const mostShown = 24;

export const query = urlState('meaning', 'picture', 'a photo of a cat', text);
export const pictures = signal<Picture[]>([]);
/** Of the pictures chosen last: how many there are, and how many have been read. */
export const reading = signal<{ done: number; total: number } | null>(null);
/** Names of files that are no pictures that this browser can show. */
export const leftOut = signal<string[]>([]);
/** A picture whose nearest ones are shown, instead of those nearest to the text. */
export const like = signal<Picture | null>(null);
export const ranked = signal<Ranked[]>([]);
export const failure = signal<Failure | null>(null);

let stopping: AbortController | undefined;
let model: OpenModel['model'] | undefined;

export function stopReading(): void {
  stopping?.abort();
}

export function clearPictures(): void {
  stopReading();
  for (const { url } of pictures.value) URL.revokeObjectURL(url);
  pictures.value = [];
  leftOut.value = [];
  like.value = null;
}

/** Computes the vectors of pictures one after the other, so that those that are done can be found already. */
export async function addPictures(files: readonly File[]): Promise<void> {
  const running = model;
  if (!running || reading.value) return;
  const chosen = files.slice(0, mostPictures - pictures.value.length);
  stopping = new AbortController();
  const { signal } = stopping;
  leftOut.value = [];
  failure.value = null;
  try {
    for (const [done, file] of chosen.entries()) {
      reading.value = { done, total: chosen.length };
      try {
        const { data } = await inTurn(() => running.embedImages(file, { normalize: true, signal }));
        pictures.value = [...pictures.value, { name: file.name, url: URL.createObjectURL(file), file, vector: data }];
      } catch (reason) {
        if (signal.aborted) return;
        // Not an image, or too large.
        if (!['INVALID_ARGUMENT', 'OUT_OF_MEMORY'].includes(asFailure(reason).code ?? '')) throw reason;
        leftOut.value = [...leftOut.value, file.name];
      }
    }
  } catch (reason) {
    failure.value = asFailure(reason);
  } finally {
    reading.value = null;
  }
}

interface Search {
  query: string;
  like: Picture | null;
  pictures: Picture[];
}

async function search({ query, like, pictures }: Search): Promise<Ranked[]> {
  const given = query.trim();
  if (!model || pictures.length === 0 || (!like && !(given && model.config.hasTokenizer))) return [];
  const running = model;
  const vector = like
    ? new Tensor(like.vector, [1, like.vector.length])
    : await inTurn(() => running.embed(given, { normalize: true }));
  const width = vector.shape[1]!;
  const rows = new Float32Array(pictures.length * width);
  for (const [i, picture] of pictures.entries()) rows.set(picture.vector, i * width);
  const [hits = []] = semanticSearch(vector, new Tensor(rows, [pictures.length, width]), { topK: mostShown });
  return hits.map(({ index, score }) => ({ picture: pictures[index]!, score }));
}

const searchLatest = latest(
  search,
  (found) => {
    ranked.value = found;
  },
  (reason) => {
    failure.value = asFailure(reason);
  },
);

export function followPictures(opened: ReadonlySignal<OpenModel | undefined>): void {
  effect(() => {
    const next = opened.value?.model;
    if (next === model) return;
    untracked(clearPictures); // vectors of another model
    model = next?.config.hasImageEncoder ? next : undefined;
  });
  effect(() => searchLatest({ query: query.value, like: like.value, pictures: pictures.value }));
}
