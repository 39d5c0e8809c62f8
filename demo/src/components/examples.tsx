/** Buttons that choose an example, and what to look for in the chosen one. */
import { asEntry } from '../state/url';

export interface Example {
  id: string;
  name: string;
  /** What to look for. */
  notice: string;
}

interface ExamplesProps<E extends Example> {
  label?: string;
  examples: readonly E[];
  /** The id of the chosen one. */
  chosen: string | null | undefined;
  choose: (example: E) => void;
  /** Shown if none is chosen. */
  otherwise?: string;
}

export function Examples<E extends Example>({
  label = 'Examples',
  examples,
  chosen,
  choose,
  otherwise,
}: ExamplesProps<E>) {
  return (
    <section class="examples" aria-label={label}>
      <div class="presets">
        {examples.map((example) => (
          <button
            type="button"
            key={example.id}
            aria-pressed={chosen === example.id}
            onClick={() => asEntry(() => choose(example))}
          >
            {example.name}
          </button>
        ))}
      </div>
      <p class="hint" aria-live="polite">
        {examples.find(({ id }) => id === chosen)?.notice ?? otherwise}
      </p>
    </section>
  );
}
