/** Keeps the space that the largest of several contents needs, so that nothing moves when another one is shown. */
import type { ComponentChildren } from 'preact';
import { useMemo } from 'preact/hooks';

interface ReserveProps {
  /** All contents that may be shown. Laid out, but neither visible nor read out. */
  all: () => ComponentChildren[];
  /** Together with these, `all` changes. */
  dependencies: unknown[];
  children: ComponentChildren;
}

export function Reserve({ all, dependencies, children }: ReserveProps) {
  const unseen = useMemo(
    () =>
      all().map((content, i) => (
        <div key={i} aria-hidden="true">
          {content}
        </div>
      )),
    dependencies,
  );
  return (
    <div class="reserve">
      {unseen}
      <div>{children}</div>
    </div>
  );
}
