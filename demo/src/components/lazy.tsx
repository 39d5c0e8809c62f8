/** Parts of the page that are downloaded when they are needed. */
import { signal } from '@preact/signals';
import type { FunctionComponent } from 'preact';
import { useEffect } from 'preact/hooks';
import { asFailure, type Failure } from '../engine/failure';
import { Failed } from './failed';

/** The component that `load` downloads, when it is first shown. */
export function lazy(load: () => Promise<FunctionComponent>): FunctionComponent {
  const loaded = signal<{ Content: FunctionComponent } | undefined>(undefined);
  const failure = signal<Failure | null>(null);
  const start = () =>
    load().then(
      (Content) => {
        loaded.value = { Content };
      },
      (error) => {
        failure.value = asFailure(error);
      },
    );
  return function Lazy() {
    useEffect(() => {
      if (!loaded.peek()) void start();
    }, []);
    useEffect(() => {
      if (!failure.value) return undefined;
      const again = () => location.reload();
      addEventListener('online', again);
      return () => removeEventListener('online', again);
    }, [failure.value]);
    const { Content } = loaded.value ?? {};
    if (Content) return <Content />;
    if (failure.value) return <Failed what="This page" of={failure.value} retry={() => location.reload()} />;
    // Not a paragraph: Preact would reuse the one that index.html has below its heading, and readers would see it move.
    return (
      <div class="waiting" role="status">
        Loading the page …
      </div>
    );
  };
}
