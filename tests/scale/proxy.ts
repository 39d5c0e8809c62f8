/** A TCP proxy in front of a server, which fails as servers and networks do. */
import { EventEmitter, once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';

export class FaultyProxy extends EventEmitter<{ connection: []; refusal: []; idle: [] }> {
  readonly #target: number;
  readonly #sockets = new Set<Socket>();
  #server: Server | null = null;
  #port = 0;
  /** While it holds, it accepts connections and passes nothing on, as a server that was stopped by SIGSTOP. */
  #isHolding = false;
  #held: (() => void)[] = [];

  /** `target`: the server's port. */
  private constructor(target: number) {
    super();
    this.#target = target;
  }

  static async start(target: number): Promise<FaultyProxy> {
    const proxy = new FaultyProxy(target);
    await proxy.listen();
    return proxy;
  }

  get port(): number {
    return this.#port;
  }

  hold(): void {
    this.#isHolding = true;
  }

  release(): void {
    this.#isHolding = false;
    for (const pass of this.#held.splice(0)) pass();
  }

  /** Cuts all connections and what they hold. */
  cut(): void {
    this.#held = [];
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Cuts all connections, and refuses new ones until `listen` is called. */
  close(): void {
    this.#server?.close();
    this.#server = null;
    this.cut();
  }

  async listen(): Promise<void> {
    this.#server = createServer((client) => this.#accept(client)).listen(this.#port, '127.0.0.1');
    await once(this.#server, 'listening');
    this.#port = (this.#server.address() as { port: number }).port;
  }

  /** Resolves when no client is connected. */
  async idle(): Promise<void> {
    while (this.#sockets.size > 0) await once(this, 'idle');
  }

  #accept(client: Socket): void {
    let server: Socket | null = null;
    this.#keep(client);
    this.#pass(() => {
      if (client.destroyed) return;
      server = connect(this.#target, '127.0.0.1');
      this.#keep(server);
      server.on('data', (data) => this.#pass(() => client.write(data)));
      server.on('end', () => this.emit('refusal'));
      server.on('close', () => client.destroy());
    });
    client.on('data', (data) => this.#pass(() => server?.write(data)));
    client.on('close', () => server?.destroy());
    this.emit('connection');
  }

  #keep(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => {
      this.#sockets.delete(socket);
      if (this.#sockets.size === 0) this.emit('idle');
    });
  }

  #pass(action: () => void): void {
    if (this.#isHolding) this.#held.push(action);
    else action();
  }
}
