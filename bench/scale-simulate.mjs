// Simulates many workers on one plan and one queue: `node bench/scale-simulate.mjs`. An event-driven simulation, not a measurement: its
// constants are the measured ones of docs/scale.md. Prints the table of that page; the same on every machine, as its random numbers are seeded.
const kChunks = 20_000; // 200 million lines
const kChunkSeconds = 20; // 10,000 lines at 500 rows/s
const kSpread = 0.2; // the standard deviation of its logarithm, by the lengths of texts and the speeds of machines
const kSlowWorkers = 0.02; // workers that are three times as slow, as on a machine that others use
const kDeathsPerHour = 0.1; // per worker
const kRestartSeconds = 30;
const kLockSeconds = 30;
const kServiceSeconds = 0.00025; // of the queue's server per request; 0.238 ms measured per job, here for each request
const kRequests = 3; // per chunk: take, renew the lock once, complete

function randomOf(seed) {
  return () => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return (seed + 0.5) / 2 ** 32;
  };
}

/** A heap of events by time. */
class Events {
  #heap = [];
  get size() {
    return this.#heap.length;
  }
  push(time, event) {
    const heap = this.#heap;
    let n = heap.push({ time, event }) - 1;
    for (let up = (n - 1) >> 1; n > 0 && heap[up].time > heap[n].time; n = up, up = (n - 1) >> 1)
      [heap[up], heap[n]] = [heap[n], heap[up]];
  }
  pop() {
    const heap = this.#heap;
    const first = heap[0];
    const last = heap.pop();
    if (heap.length > 0) {
      heap[0] = last;
      for (let n = 0; ; ) {
        let least = n;
        for (const child of [2 * n + 1, 2 * n + 2]) if (heap[child]?.time < heap[least].time) least = child;
        if (least === n) break;
        [heap[least], heap[n]] = [heap[n], heap[least]];
        n = least;
      }
    }
    return first;
  }
}

/** Runs a plan. `chunkSeconds`: smaller ones show where the queue saturates. */
export function simulate(workers, { chunks = kChunks, chunkSeconds = kChunkSeconds, seed = 1 } = {}) {
  const random = randomOf(seed);
  const normal = () => Math.sqrt(-2 * Math.log(random())) * Math.cos(2 * Math.PI * random());
  const slow = Array.from({ length: workers }, () => (random() < kSlowWorkers ? 3 : 1));
  const events = new Events();
  let serverFree = 0;
  let waiting = chunks;
  let busy = 0; // seconds of useful work
  let waits = 0;
  let takes = 0;
  let deaths = 0;
  let end = 0;
  let halfIdle = 0; // when half of the workers had nothing more to do: stragglers come after it
  let idle = 0;
  const parked = [];
  /** The time at which the server has answered a request that comes in at `time`. */
  const request = (time) => {
    serverFree = Math.max(serverFree, time) + kServiceSeconds;
    return serverFree;
  };
  const take = (time, worker) => {
    if (waiting === 0) {
      parked.push(worker);
      if (++idle === Math.ceil(workers / 2)) halfIdle = time;
      return;
    }
    waiting--;
    const from = request(time);
    waits += from - time;
    takes++;
    const seconds = chunkSeconds * slow[worker] * Math.exp(kSpread * normal() - (kSpread * kSpread) / 2);
    const death = (-Math.log(random()) * 3600) / kDeathsPerHour;
    if (death < seconds) {
      deaths++;
      events.push(from + death + kRestartSeconds, () => take(from + death + kRestartSeconds, worker));
      // The chunk is handed out again when its lock has expired and two checks have noticed it.
      events.push(from + death + 2 * kLockSeconds, (time) => {
        waiting++;
        const other = parked.pop();
        if (other !== undefined) {
          idle--;
          take(time, other);
        }
      });
      return;
    }
    events.push(from + seconds, (time) => {
      busy += seconds;
      for (let n = 1; n < kRequests - 1; n++) request(time);
      end = Math.max(end, request(time));
      take(time, worker);
    });
  };
  for (let worker = 0; worker < workers; worker++) events.push(random(), (time) => take(time, worker));
  while (events.size > 0) {
    const { time, event } = events.pop();
    event(time);
  }
  return {
    hours: end / 3600,
    use: busy / (workers * end),
    wait: (1000 * waits) / takes,
    deaths,
    tail: end - (halfIdle || end),
  };
}

console.log('| workers | hours | busy | wait for a chunk | deaths | after half are idle |');
console.log('|---|---|---|---|---|---|');
for (const workers of [1, 10, 100, 1000]) {
  const { hours, use, wait, deaths, tail } = simulate(workers);
  console.log(
    `| ${workers.toLocaleString('en')} | ${hours.toFixed(hours < 10 ? 2 : 0)} | ${(100 * use).toFixed(1)} % | ${wait.toFixed(2)} ms | ${deaths} | ${tail.toFixed(0)} s |`,
  );
}
console.log('\n| seconds per chunk, 1,000 workers | busy | wait for a chunk |');
console.log('|---|---|---|');
for (const chunkSeconds of [20, 2, 1, 0.5, 0.2]) {
  const { use, wait } = simulate(1000, { chunkSeconds, chunks: 200_000 });
  console.log(`| ${chunkSeconds} | ${(100 * use).toFixed(1)} % | ${wait.toFixed(wait < 10 ? 2 : 0)} ms |`);
}
