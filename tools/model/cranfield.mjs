/** Cranfield (Cleverdon 1967): abstracts of aerodynamics with queries, as the folder of the repository oussbenk/cranfield-trec-dataset has them. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Abstracts, queries, and the ids of the relevant abstracts. The judgements number the queries from 1 in their order. */
export function readCranfield(folder) {
  const read = (name) => readFileSync(join(folder, name), 'utf8');
  const inTags = (text, tag) => [...text.matchAll(new RegExp(`<${tag}>(.*?)</${tag}>`, 'gs'))].map(([, body]) => body);
  const plain = (text) => text.replace(/\s+/g, ' ').trim();
  const docs = inTags(read('cran.all.1400.xml'), 'doc');
  const corpus = Object.fromEntries(
    docs.map((doc) => [
      inTags(doc, 'docno')[0].trim(),
      plain(inTags(doc, 'text')[0]) || plain(inTags(doc, 'title')[0]),
    ]),
  );
  const queries = Object.fromEntries(inTags(read('cran.qry.xml'), 'title').map((text, i) => [i + 1, plain(text)]));
  const relevantDocs = Object.fromEntries(Object.keys(queries).map((id) => [id, []]));
  for (const line of read('cranqrel.trec.txt').split('\n')) {
    const [query, , document, relevance] = line.trim().split(/\s+/);
    if (Number(relevance) > 0) relevantDocs[query].push(document);
  }
  return { corpus, queries, relevantDocs };
}
