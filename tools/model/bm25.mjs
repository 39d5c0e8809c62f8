// Okapi BM25 (Robertson and Zaragoza 2009) over short documents, with its usual constants.

const K1 = 1.2;
const B = 0.75;

export class Bm25 {
  /** documents: [{ text, id }] */
  constructor(documents) {
    this.documents = documents;
    this.postings = new Map(); // term -> [document, count] pairs
    this.lengths = documents.map(({ text }, d) => {
      const terms = termsOf(text);
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
    for (const term of new Set(termsOf(query))) {
      const postings = this.postings.get(term) ?? [];
      const idf = Math.log(1 + (this.documents.length - postings.length + 0.5) / (postings.length + 0.5));
      for (const [d, count] of postings) {
        const saturated = (count * (K1 + 1)) / (count + K1 * (1 - B + (B * this.lengths[d]) / this.meanLength));
        scores.set(d, (scores.get(d) ?? 0) + idf * saturated);
      }
    }
    return [...scores].map(([d, score]) => [this.documents[d].id, score]);
  }
}

function termsOf(text) {
  return text.toLowerCase().match(/[a-z0-9]+/g) ?? [];
}
