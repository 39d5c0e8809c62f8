import type { ModelDevice } from './device.js';
import type { SpanScorer } from './heads/span-scorer.js';
import { Steps } from './heads/steps.js';
import type { Chain, Head, HeadName } from './heads/task-heads.js';
import type { LoadedModel } from './loaded-model.js';

/** The objects in WebAssembly memory that a model owns. */
export class Parts {
  /** The folder's steps from hidden states to vectors. */
  steps = new Steps([], 0);
  /** The models of a Router's other chains. */
  routes: readonly { dispose(): void }[] = [];
  pooler: Chain | null = null;
  /** The span scorer of a GLiNER. */
  spans: SpanScorer | null = null;
  /** null: everything runs in WebAssembly. */
  device: ModelDevice | null = null;
  /**
   * Heads by name. 'tokens' is the layer that `embedTokens` applies to each token, in checkpoints that store it beside
   * the encoder.
   */
  readonly heads = new Map<HeadName | 'tokens', Head>();
  /** Deletes the encoder. A model in training deletes the encoder's users first. */
  deleteEncoder = (): void => this.encoder.delete();
  #deleted = false;

  /** `release` is called after the encoder is deleted. */
  constructor(
    readonly encoder: LoadedModel['raw'],
    private readonly release: () => void,
  ) {}

  /** May be called twice: by a load that fails late, and by the garbage collector for the incomplete model. */
  delete(): void {
    if (this.#deleted) return;
    this.#deleted = true;
    for (const route of this.routes) route.dispose();
    this.device?.delete();
    this.pooler?.delete();
    this.spans?.delete();
    this.steps.delete();
    for (const { chain } of this.heads.values()) chain.delete();
    this.deleteEncoder();
    this.release();
  }
}
