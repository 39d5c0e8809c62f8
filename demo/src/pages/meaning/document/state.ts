/** Search in a document: its sentences are embedded in the model's worker, a few at a time, and a question ranks the passages that have been read. */
import { effect, type ReadonlySignal, type Signal, signal } from '@preact/signals';
import { type PretrainedModel, semanticSearch, Tensor } from 'heed';
import { asFailure, type Failure, inTurn, type OpenModel } from '../../../engine/heed';
import { text } from '../../../state/codecs';
import { latest } from '../../../state/latest';
import { page, urlState } from '../../../state/url';
import { mostText, readText } from './file';
import { type Passage, passagesOf } from './passages';
import { sampleQuestion, sampleText } from './sample';

/** The passages that have been read, and the vectors of their sentences. */
interface Index {
  passages: Passage[];
  /** Sentences of these passages, each with its place. */
  sentences: { passage: number; place: number }[];
  /** One row per sentence; null if there are none. */
  vectors: Tensor | null;
  /** Passages of the whole document. */
  total: number;
}

export interface Found {
  passage: Passage;
  /** The sentence that is nearest to the question. */
  best: number;
  score: number;
}

export interface DocumentSearch {
  written: Signal<string>;
  question: Signal<string>;
  index: Signal<Index>;
  /** Whether passages are being embedded. */
  reading: Signal<boolean>;
  /** Whether the reader stopped that. */
  stopped: Signal<boolean>;
  found: Signal<{ passages: Found[]; question: string; milliseconds: number } | null>;
  problem: Signal<string | null>;
  failure: Signal<Failure | null>;
  /** Reads a text file into `written`. */
  open(file: File): Promise<void>;
  stop(): void;
  resume(): void;
}

/** Sentences per call of the model. Between calls, other work gets its turn. */
const batchSize = 32;
/** Milliseconds between updates of what has been read. */
const betweenUpdates = 200;
const shownPassages = 5;
/** Enough to be in that many passages. */
const comparedSentences = 200;
/** Milliseconds without typing after which a changed document is read. */
const pause = 300;
/** Milliseconds for which splitting a text may hold the page. */
const slice = 8;

const nothing: Index = { passages: [], sentences: [], vectors: null, total: 0 };

export function makeDocumentSearch(): DocumentSearch {
  const search: DocumentSearch = {
    written: signal(sampleText),
    question: urlState('meaning', 'ask', sampleQuestion, text),
    index: signal(nothing),
    reading: signal(false),
    stopped: signal(false),
    found: signal(null),
    problem: signal(null),
    failure: signal(null),
    async open(file) {
      const read = await readText(file);
      search.problem.value = 'problem' in read ? read.problem : null;
      if ('text' in read) search.written.value = read.text;
    },
    stop: () => {},
    resume: () => {},
  };
  return search;
}

/** Reads the document when it changes, and searches when the question or the passages that were read change, while the page is shown. */
export function followDocument(search: DocumentSearch, opened: ReadonlySignal<OpenModel | undefined>): void {
  const { written, question, index, reading, stopped, found, failure } = search;
  /** The vectors of the document's sentences: after a change, only new ones are embedded. */
  let known = new Map<string, Float32Array>();
  let model: PretrainedModel | undefined;
  let run = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  let read = '';
  /** The failure of the last search if `failure` shows it, and not one of reading the document. */
  let searchFailure: Failure | null = null;

  const start = async () => {
    run.abort();
    run = new AbortController();
    const { signal } = run;
    stopped.value = false;
    failure.value = searchFailure = null;
    reading.value = true;
    read = written.peek();
    try {
      await readDocument(model!, read.slice(0, mostText), known, signal, (next) => {
        index.value = next;
      });
    } catch (reason) {
      if (!signal.aborted) failure.value = asFailure(reason);
    } finally {
      if (signal === run.signal) reading.value = false;
    }
  };
  search.stop = () => {
    run.abort();
    reading.value = false;
    stopped.value = true;
  };
  search.resume = () => void start();

  effect(() => {
    const next = opened.value?.model;
    if (next !== model) {
      run.abort();
      known = new Map();
      index.value = nothing;
      reading.value = false;
      model = undefined;
    }
    if (page.value !== 'meaning' || !next) return;
    const isFirst = model === undefined;
    const isChanged = written.value !== read;
    model = next;
    clearTimeout(timer);
    if (isFirst) void start();
    else if (isChanged) timer = setTimeout(start, pause);
  });

  const find = latest(
    (input: { model: PretrainedModel; question: string; index: Index }) =>
      rank(input.model, input.question, input.index),
    (result, { question }) => {
      found.value = { ...result, question };
      if (failure.peek() === searchFailure) failure.value = searchFailure = null;
    },
    (reason) => {
      if (failure.peek() === searchFailure) failure.value = searchFailure = asFailure(reason);
    },
  );
  effect(() => {
    const asked = question.value.trim();
    if (page.value !== 'meaning' || !opened.value) return;
    if (asked && index.value.vectors) find({ model: opened.value.model, question: asked, index: index.value });
    else found.value = null;
  });
}

/** Calls `show` with the passages whose sentences' vectors are known: at first those that were read before, then again and again. */
async function readDocument(
  model: PretrainedModel,
  document: string,
  known: Map<string, Float32Array>,
  signal: AbortSignal,
  show: (index: Index) => void,
): Promise<void> {
  const passages: Passage[] = [];
  let since = performance.now();
  for (const passage of passagesOf(document)) {
    passages.push(passage);
    if (performance.now() - since < slice) continue;
    await new Promise((resolve) => setTimeout(resolve));
    signal.throwIfAborted();
    since = performance.now();
  }
  const sentences = new Set(passages.flat());
  const missing = [...sentences].filter((sentence) => !known.has(sentence));
  let shown = performance.now();
  show(indexOf(passages, known));
  for (let at = 0; at < missing.length; at += batchSize) {
    const batch = missing.slice(at, at + batchSize);
    const { data, shape } = await inTurn(() =>
      model.embed(batch, { normalize: true, signal, ...prompt(model, 'document') }),
    ).catch((reason: unknown) => {
      if (!signal.aborted) show(indexOf(passages, known)); // what has been read can be searched
      throw reason;
    });
    signal.throwIfAborted();
    for (const [i, sentence] of batch.entries()) known.set(sentence, data.slice(i * shape[1]!, (i + 1) * shape[1]!));
    if (performance.now() - shown < betweenUpdates && at + batchSize < missing.length) continue;
    shown = performance.now();
    show(indexOf(passages, known));
  }
  for (const sentence of known.keys()) if (!sentences.has(sentence)) known.delete(sentence);
}

function indexOf(all: Passage[], known: Map<string, Float32Array>): Index {
  const passages = all.filter((passage) => passage.every((sentence) => known.has(sentence)));
  const sentences = passages.flatMap((sentences, passage) => sentences.map((_, place) => ({ passage, place })));
  if (sentences.length === 0) return { ...nothing, total: all.length };
  const width = known.get(passages[0]![0]!)!.length;
  const data = new Float32Array(sentences.length * width);
  for (const [i, { passage, place }] of sentences.entries())
    data.set(known.get(passages[passage]![place]!)!, i * width);
  return { passages, sentences, vectors: new Tensor(data, [sentences.length, width]), total: all.length };
}

/** Passages in the order of their nearest sentences. */
async function rank(
  model: PretrainedModel,
  question: string,
  { passages, sentences, vectors }: Index,
): Promise<{ passages: Found[]; milliseconds: number }> {
  const start = performance.now();
  const query = await inTurn(() => model.embed([question], { normalize: true, ...prompt(model, 'query') }));
  const hits = semanticSearch(query, vectors!, { topK: comparedSentences })[0]!;
  const found = new Map<number, Found>();
  for (const { index, score } of hits) {
    const { passage, place } = sentences[index]!;
    if (found.size < shownPassages && !found.has(passage))
      found.set(passage, { passage: passages[passage]!, best: place, score });
  }
  return { passages: [...found.values()], milliseconds: performance.now() - start };
}

/** The prompt that the model's folder defines for queries or documents, if it does. */
const prompt = ({ config }: PretrainedModel, promptName: 'query' | 'document') =>
  promptName in config.prompts ? { promptName } : {};
