/** Bidirectional long short-term memory (Hochreiter and Schmidhuber 1997), as in torch.nn.LSTM. */
import { sigmoid } from '../../base/scores.js';
import type { RawLayers, RawTensor, RawTensorLayer } from '../../base/wasm/core.js';
import { makeDense } from './task-heads.js';

interface Direction {
  /** W_ih x + b_ih + b_hh for all steps, [L, 4H], with the gates in PyTorch's order: input, forget, cell, output. */
  input: RawTensorLayer;
  /** W_hh h: [1, 4H]. */
  recurrent: RawTensorLayer;
}

/** The number of steps before yielding to the event loop. */
const STEPS = 128;

export class LongShortTermMemory {
  readonly #layers: [Direction, Direction][] = [];
  readonly #hidden: number;

  /**
   * `hidden`: H, the hidden size per direction. `read` returns a tensor by its name in the checkpoint and checks its
   * shape.
   */
  constructor(
    calls: RawLayers,
    layers: number,
    inputs: number,
    hidden: number,
    read: (name: string, shape: number[]) => RawTensor,
  ) {
    this.#hidden = hidden;
    const made: RawTensorLayer[] = [];
    const dense = (name: string, weight: RawTensor, bias: RawTensor | undefined) => {
      const layer = makeDense(calls, { name, weight, bias }, 'identity');
      made.push(layer);
      return layer;
    };
    const direction = (width: number, suffix: string): Direction => {
      const named = (kind: string) => `rnn.lstm.${kind}_${suffix}`;
      const [ih, hh] = [read(named('bias_ih'), [4 * hidden]), read(named('bias_hh'), [4 * hidden])];
      const bias = { shape: [4 * hidden], data: ih.data.map((b, i) => b + hh.data[i]!) };
      return {
        input: dense(named('weight_ih'), read(named('weight_ih'), [4 * hidden, width]), bias),
        recurrent: dense(named('weight_hh'), read(named('weight_hh'), [4 * hidden, hidden]), undefined),
      };
    };
    try {
      for (let i = 0; i < layers; i++) {
        const width = i === 0 ? inputs : 2 * hidden;
        this.#layers.push([direction(width, `l${i}`), direction(width, `l${i}_reverse`)]);
      }
    } catch (error) {
      for (const layer of made) layer.delete();
      throw error;
    }
  }

  /** Maps x [L, inputs] of one sequence to [L, 2H]: the forward direction's outputs, then the backward direction's. */
  async forward(x: RawTensor, yieldToEventLoop: () => Promise<void>): Promise<RawTensor> {
    const hidden = this.#hidden;
    const length = x.shape[0]!;
    for (const directions of this.#layers) {
      const out = new Float32Array(length * 2 * hidden);
      for (const [d, { input, recurrent }] of directions.entries()) {
        const fromInput = input.forward({ x }).data;
        const cell = new Float32Array(hidden);
        let last = new Float32Array(hidden);
        for (let step = 0; step < length; step++) {
          const t = d === 0 ? step : length - 1 - step;
          const gates = recurrent.forward({ x: { shape: [1, hidden], data: last } }).data;
          const at = t * 4 * hidden;
          last = new Float32Array(hidden);
          for (let i = 0; i < hidden; i++) {
            const gate = (n: number) => fromInput[at + n * hidden + i]! + gates[n * hidden + i]!;
            cell[i] = sigmoid(gate(1)) * cell[i]! + sigmoid(gate(0)) * Math.tanh(gate(2));
            last[i] = sigmoid(gate(3)) * Math.tanh(cell[i]!);
          }
          out.set(last, (2 * t + d) * hidden);
          if (step % STEPS === STEPS - 1) await yieldToEventLoop();
        }
      }
      x = { shape: [length, 2 * hidden], data: out };
    }
    return x;
  }

  delete(): void {
    for (const { input, recurrent } of this.#layers.splice(0).flat()) {
      input.delete();
      recurrent.delete();
    }
  }
}
