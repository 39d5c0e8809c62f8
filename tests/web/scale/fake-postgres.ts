/** A server that speaks enough of PostgreSQL's protocol for the tables of `--to`, and answers as a test says. */
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';

/** One column of integers, an error with its SQLSTATE, or no answer. */
export type Answer = { column: string; values: number[] } | { sqlstate: string } | 'silence' | 'lost';

export interface FakePostgres {
  url: string;
  /** The queries so far. */
  queries: string[];
  close(): Promise<void>;
}

const INTEGER = 23;
const text = (value: string) => Buffer.from(`${value}\0`);
const int = (value: number, bytes: 2 | 4) => {
  const buffer = Buffer.alloc(bytes);
  buffer.writeIntBE(value, 0, bytes);
  return buffer;
};
const message = (type: string, ...parts: Buffer[]) => {
  const body = Buffer.concat(parts);
  return Buffer.concat([Buffer.from(type), int(body.length + 4, 4), body]);
};
const READY = message('Z', Buffer.from('I'));

function encoded(answer: Exclude<Answer, string>): Buffer {
  if ('sqlstate' in answer) {
    const fields = ['SERROR', `C${answer.sqlstate}`, 'Mrefused', ''].map(text);
    return Buffer.concat([message('E', ...fields), READY]);
  }
  const { column, values } = answer;
  const field = [text(column), int(0, 4), int(0, 2), int(INTEGER, 4), int(4, 2), int(-1, 4), int(0, 2)];
  const rows = values.map((value) => message('D', int(1, 2), int(`${value}`.length, 4), Buffer.from(`${value}`)));
  return Buffer.concat([
    message('T', int(1, 2), ...field),
    ...rows,
    message('C', text(`SELECT ${rows.length}`)),
    READY,
  ]);
}

/** `answerOf`: the answer to a query; by default, no rows. */
export async function startFakePostgres(
  answerOf: (sql: string) => Answer | undefined | Promise<Answer | undefined>,
): Promise<FakePostgres> {
  const queries: string[] = [];
  const sockets = new Set<Socket>();

  async function answer(socket: Socket, sql: string, isExtended: boolean): Promise<void> {
    queries.push(sql);
    const given = (await answerOf(sql)) ?? { column: 'none', values: [] };
    if (given === 'lost') socket.destroy();
    else if (given !== 'silence')
      socket.write(Buffer.concat([...(isExtended ? [message('1'), message('2')] : []), encoded(given)]));
  }

  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    let bytes = Buffer.alloc(0);
    let isStarted = false;
    let sql = '';
    socket.on('data', (chunk) => {
      bytes = Buffer.concat([bytes, chunk]);
      for (;;) {
        const head = isStarted ? 1 : 0;
        if (bytes.length < head + 4 || bytes.length < head + bytes.readInt32BE(head)) return;
        const end = head + bytes.readInt32BE(head);
        const [type, body] = [bytes.toString('latin1', 0, head), bytes.subarray(head + 4, end)];
        bytes = bytes.subarray(end);
        if (!isStarted) {
          isStarted = true;
          socket.write(Buffer.concat([message('R', int(0, 4)), READY]));
        } else if (type === 'Q') void answer(socket, body.toString('utf8', 0, body.length - 1), false);
        else if (type === 'P') sql = body.toString('utf8').split('\0')[1]!;
        else if (type === 'S') void answer(socket, sql, true);
        else if (type === 'X') socket.end();
      }
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `postgres://127.0.0.1:${(server.address() as AddressInfo).port}/x`,
    queries,
    async close() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}
