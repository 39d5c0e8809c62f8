/** Metrics of information retrieval, as in sentence-transformers' InformationRetrievalEvaluator. */
import { describe, guarded, invalid } from '../base/error.js';
import { maxOf } from '../base/lists.js';
import { listOf, optional, type Read, type Reader, readOptions, type Schema, size } from '../base/options.js';
import { type PretrainedModel, requireModel } from '../models/index.js';
import { eachPair, largest, type ProductOptions, productSchema, readUnitRows } from '../search/index.js';

/** The cutoffs k at which metrics are measured: only the first k results count. */
export interface RetrievalCutoffs {
  /** Cutoffs of accuracy. Default [1, 3, 5, 10]. */
  accuracyAtK?: readonly number[] | undefined;
  /** Cutoffs of precision and recall. Default [1, 3, 5, 10]. */
  precisionRecallAtK?: readonly number[] | undefined;
  /** Cutoffs of mean reciprocal rank. Default [10]. */
  mrrAtK?: readonly number[] | undefined;
  /** Cutoffs of normalized discounted cumulative gain. Default [10]. */
  ndcgAtK?: readonly number[] | undefined;
  /** Cutoffs of mean average precision. Default [100]. */
  mapAtK?: readonly number[] | undefined;
}

/** Means over the queries, from 0 to 1. Each metric is keyed by the cutoff k. */
export interface RetrievalMetrics {
  /** Number of queries. */
  count: number;
  /** Accuracy at k: fraction of queries with at least one relevant document among the first k results. */
  accuracy: Record<number, number>;
  /** Precision at k: fraction of the first k results that are relevant. */
  precision: Record<number, number>;
  /** Recall at k: fraction of the relevant documents that are among the first k results. */
  recall: Record<number, number>;
  /** Mean reciprocal rank at k: 1 / rank of the first relevant document, or 0 if none is among the first k results. */
  mrr: Record<number, number>;
  /** Normalized discounted cumulative gain at k; a relevant document at rank r contributes 1 / log2(r + 1). */
  ndcg: Record<number, number>;
  /**
   * Mean average precision at k: the sum of the precisions at the ranks of the relevant documents among the first k
   * results, divided by min(k, number of relevant documents).
   */
  map: Record<number, number>;
}

const ks: Reader<number[]> = listOf(size, 'an array of numbers of results');
const cutoffs = {
  accuracyAtK: optional(ks, [1, 3, 5, 10]),
  precisionRecallAtK: optional(ks, [1, 3, 5, 10]),
  mrrAtK: optional(ks, [10]),
  ndcgAtK: optional(ks, [10]),
  mapAtK: optional(ks, [100]),
} satisfies Schema<RetrievalCutoffs>;

type Id = string | number;

/**
 * Measures rankings. `rankings`: for each query, the ids of the documents found, best first. `relevant`: for each
 * query, the ids of its relevant documents. The ids 1 and '1' are the same. A document that a ranking repeats counts
 * only at its first rank; at the others, it is not relevant.
 *
 * @example
 * const { mrr, recall } = informationRetrievalMetrics([['b', 'a'], ['c', 'd']], [['a'], ['c', 'e']], { precisionRecallAtK: [2] });
 * [mrr[10], recall[2]]; // [0.75, 0.75]
 * @throws HeedError SHAPE_MISMATCH if the lists differ in length; INVALID_ARGUMENT for a query without relevant
 *   documents
 */
export function informationRetrievalMetrics(
  rankings: readonly (readonly Id[])[],
  relevant: readonly (readonly Id[] | ReadonlySet<Id>)[],
  options?: RetrievalCutoffs,
): RetrievalMetrics {
  const read = readOptions('informationRetrievalMetrics', cutoffs, options);
  const lists = readLists('rankings', rankings);
  const sets = readLists('relevant', relevant).map((ids) => new Set(ids));
  if (lists.length !== sets.length)
    throw invalid('relevant', `${lists.length} lists, one for each ranking`, `${sets.length}`, 'SHAPE_MISMATCH');
  const without = sets.findIndex(({ size }) => size === 0);
  if (without >= 0) throw invalid(`relevant[${without}]`, 'at least one relevant document', 'none');
  return measureRankings(lists, sets, read);
}

/** Reads lists of ids, as texts. */
function readLists(name: string, lists: readonly (readonly Id[] | ReadonlySet<Id>)[]): string[][] {
  return guarded(name, () => {
    if (!Array.isArray(lists) || lists.length === 0)
      throw invalid(name, 'an array with a list of ids for each query', describe(lists));
    return lists.map((ids: unknown, i) => {
      if (!Array.isArray(ids) && !(ids instanceof Set)) throw invalid(`${name}[${i}]`, 'a list of ids', describe(ids));
      return Array.from(ids as Iterable<unknown>, (id) => idOf(id, `${name}[${i}]`));
    });
  });
}

function idOf(id: unknown, at: string): string {
  if (typeof id === 'string' || (typeof id === 'number' && Number.isFinite(id))) return String(id);
  throw invalid(at, 'ids, which are strings or numbers', describe(id));
}

function measureRankings(
  rankings: readonly (readonly string[])[],
  relevant: readonly ReadonlySet<string>[],
  read: Read<typeof cutoffs>,
): RetrievalMetrics {
  const hits = rankings.map((ids, n) => {
    const left = new Set(relevant[n]!);
    return ids.map((id) => left.delete(id));
  });
  const wanted = relevant.map(({ size }) => size);
  const found = (n: number, k: number) => {
    let count = 0;
    for (let i = 0; i < Math.min(k, hits[n]!.length); i++) if (hits[n]![i]) count++;
    return count;
  };
  const means = (at: readonly number[], measure: (n: number, k: number) => number) =>
    Object.fromEntries(at.map((k) => [k, hits.reduce((sum, _, n) => sum + measure(n, k), 0) / hits.length]));
  const gain = (relevances: readonly boolean[]) =>
    relevances.reduce((sum, isRelevant, i) => sum + (isRelevant ? 1 / Math.log2(i + 2) : 0), 0);
  const { precisionRecallAtK } = read;
  return {
    count: hits.length,
    accuracy: means(read.accuracyAtK, (n, k) => (found(n, k) > 0 ? 1 : 0)),
    precision: means(precisionRecallAtK, (n, k) => found(n, k) / k),
    recall: means(precisionRecallAtK, (n, k) => found(n, k) / wanted[n]!),
    mrr: means(read.mrrAtK, (n, k) => {
      const first = hits[n]!.slice(0, k).indexOf(true);
      return first < 0 ? 0 : 1 / (first + 1);
    }),
    ndcg: means(
      read.ndcgAtK,
      (n, k) => gain(hits[n]!.slice(0, k)) / gain(new Array(Math.min(k, wanted[n]!)).fill(true)),
    ),
    map: means(read.mapAtK, (n, k) => {
      let [count, sum] = [0, 0];
      for (const [i, isRelevant] of hits[n]!.slice(0, k).entries()) if (isRelevant) sum += ++count / (i + 1);
      return sum / Math.min(k, wanted[n]!);
    }),
  };
}

/** A retrieval data set, as in BEIR. */
export interface RetrievalData {
  /** Queries by id. */
  readonly queries: Readonly<Record<string, string>>;
  /** Documents by id. */
  readonly corpus: Readonly<Record<string, string>>;
  /** For each query id, the ids of its relevant documents. Queries without relevant documents are ignored. */
  readonly relevantDocs: Readonly<Record<string, readonly string[] | ReadonlySet<string>>>;
}

export interface RetrievalOptions extends RetrievalCutoffs, ProductOptions {}

/**
 * Measures a model on a retrieval data set: embeds queries and documents with the prompts of the model's folder, ranks
 * all documents by cosine for each query, and compares the rankings with the relevant documents.
 *
 * @example
 * const data = { queries: { q: 'a kitten' }, corpus: { a: 'a small cat', b: 'a fast car' }, relevantDocs: { q: ['a'] } };
 * const { accuracy, ndcg } = await evaluateInformationRetrieval(model, data);
 * [accuracy[1], ndcg[10]]; // [1, 1]
 * @throws HeedError INVALID_ARGUMENT if `relevantDocs` has an unknown query or document, or no relevant document at all
 */
export async function evaluateInformationRetrieval(
  model: Pick<PretrainedModel, 'embedQuery' | 'embedDocument'>,
  data: RetrievalData,
  options?: RetrievalOptions,
): Promise<RetrievalMetrics> {
  const name = 'evaluateInformationRetrieval';
  const read = readOptions(name, { ...cutoffs, ...productSchema }, options);
  requireModel(name, model, 'embedQuery');
  const { queries, corpus, relevantDocs } = readRetrievalData(data);
  const [queryIds, ids] = [[...relevantDocs.keys()], [...corpus.keys()]];
  const { signal } = read;
  const call = signal ? { signal } : {};
  const asked = await model.embedQuery(
    queryIds.map((id) => queries.get(id)!),
    call,
  );
  const documents = await model.embedDocument([...corpus.values()], call);
  const most = maxOf(Object.keys(cutoffs).flatMap((key) => read[key as keyof typeof cutoffs]));
  const [a, b] = [readUnitRows('queries', asked), readUnitRows('corpus', documents)];
  const nearest = Array.from({ length: a.count }, () => largest(Math.min(most, b.count)));
  await eachPair(a, b, read, (n, index, score) => {
    if (score > nearest[n]!.least) nearest[n]!.push({ index, score });
  });
  const rankings = nearest.map((hits) => hits.sorted().map(({ index }) => ids[index]!));
  return measureRankings(rankings, [...relevantDocs.values()], read);
}

function readRetrievalData(data: RetrievalData) {
  return guarded('data', () => {
    const [queries, corpus] = (['queries', 'corpus'] as const).map((key) => {
      const texts = Object.entries((data?.[key] ?? {}) as Record<string, unknown>);
      if (texts.length === 0) throw invalid(`data.${key}`, 'texts by their ids', describe(data?.[key]));
      for (const [id, text] of texts)
        if (typeof text !== 'string') throw invalid(`data.${key}['${id}']`, 'a text', describe(text));
      return new Map(texts as [string, string][]);
    }) as [Map<string, string>, Map<string, string>];
    const relevantDocs = new Map<string, Set<string>>();
    for (const [query, ids] of Object.entries(data.relevantDocs ?? {})) {
      const at = `data.relevantDocs['${query}']`;
      if (!queries.has(query)) throw invalid(at, 'the id of a query in data.queries', `'${query}'`);
      if (!Array.isArray(ids) && !(ids instanceof Set)) throw invalid(at, 'a list of ids', describe(ids));
      const unknown = [...ids].find((id) => !corpus.has(id));
      if (unknown !== undefined) throw invalid(at, 'ids of documents in data.corpus', describe(unknown));
      const set = new Set(ids as Iterable<string>);
      if (set.size > 0) relevantDocs.set(query, set);
    }
    if (relevantDocs.size === 0) throw invalid('data.relevantDocs', 'at least one relevant document', 'none');
    return { queries, corpus, relevantDocs };
  });
}
