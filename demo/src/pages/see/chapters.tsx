/** What follows the stage; downloaded when the model is there, or when the reader scrolls. */
import { signal } from '@preact/signals';
import type { FunctionComponent } from 'preact';
import { useEffect } from 'preact/hooks';
import { shipped } from '../../engine/heed';

const loaded = signal<{ Below: FunctionComponent } | undefined>(undefined);
const load = () =>
  import('./below').then(
    (parts) => {
      loaded.value = parts;
    },
    () => {}, // at the next scroll
  );

export function Chapters() {
  const isThere = shipped.value !== undefined;
  useEffect(() => {
    if (loaded.peek()) return undefined;
    if (isThere) void load();
    addEventListener('scroll', load, { passive: true });
    return () => removeEventListener('scroll', load);
  }, [isThere]);
  const { Below } = loaded.value ?? {};
  return Below ? <Below /> : null;
}
