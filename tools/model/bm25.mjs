// Okapi BM25 (Robertson and Zaragoza 2009) over short documents, with its usual constants.

const K1 = 1.2;
const B = 0.75;

// Lucene's English stop words (EnglishAnalyzer.ENGLISH_STOP_WORDS_SET).
export const STOP_WORDS = new Set(
  `a an and are as at be but by for if in into is it no not of on or such that the their then there these they this to was will with`.split(
    ' ',
  ),
);

export class Bm25 {
  /** documents: [{ text, id }]. leftOut: words that are not searched. */
  constructor(documents, leftOut = new Set()) {
    this.documents = documents;
    this.leftOut = leftOut;
    this.postings = new Map(); // term -> [document, count] pairs
    this.lengths = documents.map(({ text }, d) => {
      const terms = this.#termsOf(text);
      const counts = new Map();
      for (const term of terms) counts.set(term, (counts.get(term) ?? 0) + 1);
      for (const [term, count] of counts) {
        if (!this.postings.has(term)) this.postings.set(term, []);
        this.postings.get(term).push([d, count]);
      }
      return terms.length;
    });
    this.meanLength = this.lengths.reduce((sum, length) => sum + length, 0) / documents.length;
  }

  /** [[id, score]] of every document that shares a term with the query. */
  search(query) {
    const scores = new Map();
    for (const term of new Set(this.#termsOf(query))) {
      const postings = this.postings.get(term) ?? [];
      const idf = Math.log(1 + (this.documents.length - postings.length + 0.5) / (postings.length + 0.5));
      for (const [d, count] of postings) {
        const saturated = (count * (K1 + 1)) / (count + K1 * (1 - B + (B * this.lengths[d]) / this.meanLength));
        scores.set(d, (scores.get(d) ?? 0) + idf * saturated);
      }
    }
    return [...scores].map(([d, score]) => [this.documents[d].id, score]);
  }

  #termsOf(text) {
    return (text.toLowerCase().match(/[a-z0-9]+/g) ?? []).filter((term) => !this.leftOut.has(term));
  }
}
