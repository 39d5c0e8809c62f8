/**
 * A server with the part of Chroma's HTTP API (v2) that collections use: create, get, add, get records, query by exact search. For tests: the real server's binary needs a newer
 * glibc than Debian 12 has.
 */
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';

interface Collection {
  id: string;
  name: string;
  tenant: string;
  database: string;
  metadata: null;
  configuration_json: { hnsw?: { space?: string } };
  records: { id: string; embedding: number[]; document: string | null }[];
}

interface Body {
  name: string;
  configuration: Collection['configuration_json'];
  ids: string[];
  embeddings: number[][];
  documents: string[];
  query_embeddings: number[][];
  n_results: number;
}

async function bodyOf(request: IncomingMessage): Promise<Body> {
  let text = '';
  for await (const chunk of request) text += chunk;
  return JSON.parse(text || '{}') as Body;
}

function distance(space: string, a: number[], b: number[]): number {
  const dot = (x: number[], y: number[]) => x.reduce((sum, value, i) => sum + value * y[i]!, 0);
  if (space === 'cosine') return 1 - dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));
  if (space === 'ip') return 1 - dot(a, b);
  return a.reduce((sum, value, i) => sum + (value - b[i]!) ** 2, 0);
}

function query({ records, configuration_json }: Collection, { query_embeddings, n_results }: Body) {
  const space = configuration_json.hnsw?.space ?? 'l2';
  const hits = query_embeddings.map((vector) =>
    records
      .map((record) => ({ ...record, distance: distance(space, vector, record.embedding) }))
      .sort((a, b) => a.distance - b.distance)
      .slice(0, n_results),
  );
  const each = <T>(part: (hit: (typeof hits)[0][0]) => T) => hits.map((list) => list.map(part));
  return {
    ids: each(({ id }) => id),
    documents: each(({ document }) => document),
    distances: each((hit) => hit.distance),
  };
}

export async function startChromaServer(): Promise<{ port: number; close(): void }> {
  const collections = new Map<string, Collection>();
  const answerTo = (method: string, path: string, body: Body): object | undefined => {
    if (path === '/api/v2/pre-flight-checks') return { max_batch_size: 1000, supports_base64_encoding: false };
    if (path === '/api/v2/auth/identity')
      return { user_id: '', tenant: 'default_tenant', databases: ['default_database'] };
    const match = /^\/api\/v2\/tenants\/(\w+)\/databases\/(\w+)\/collections(?:\/([\w-]+))?(?:\/(\w+))?$/.exec(path);
    if (!match) return undefined;
    const [, tenant, database, name, action] = match as unknown as [string, string, string, string?, string?];
    if (name === undefined) {
      const id = crypto.randomUUID();
      const configuration_json = body.configuration;
      const made = { id, name: body.name, tenant, database, metadata: null, configuration_json, records: [] };
      collections.set(id, made).set(body.name, made);
      return made;
    }
    const collection = collections.get(name);
    if (!collection) return undefined;
    const { records } = collection;
    if (action === undefined && method === 'GET') return collection;
    if (action === 'add') {
      const { embeddings, documents } = body;
      body.ids.forEach((id, i) => {
        records.push({ id, embedding: embeddings[i]!, document: documents[i] ?? null });
      });
      return {};
    }
    if (action === 'get') {
      const found = records.filter(({ id }) => body.ids.includes(id));
      return { ids: found.map(({ id }) => id), embeddings: found.map(({ embedding }) => embedding), include: [] };
    }
    if (action === 'query') return { ...query(collection, body), include: [] };
    return undefined;
  };
  const server = createServer((request, response) => {
    void bodyOf(request).then((body) => {
      const answer = answerTo(request.method!, request.url!.split('?')[0]!, body);
      response.writeHead(answer ? 200 : 404, { 'content-type': 'application/json' });
      response.end(JSON.stringify(answer ?? { error: 'NotFoundError', message: request.url }));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  return { port: (server.address() as AddressInfo).port, close };
}
