/** Addresses of earlier versions of the page. */

/** Parameters of the former page “Your text” that belong to the heads and the hidden states. */
const ofInside = ['layer', 'head', 'view', 'token', 'step', 'sentence'];

/** Earlier links to these pages have a layer and a head, both counted from 0; where one was left out, it is this one. */
const headsBefore: Record<string, readonly [layer: number, head: number]> = { inside: [5, 7], learn: [1, 0] };

/** Changes the parameters of an earlier link into “layer.head”, counted from 1; false for those of today. */
function renumber(target: string, parameters: URLSearchParams): boolean {
  const [layer, head] = [parameters.get('layer'), parameters.get('head')];
  const before = headsBefore[target];
  if (!before || (layer === null && !/^\d+$/.test(head ?? ''))) return false;
  parameters.delete('layer');
  parameters.set('head', `${Number(layer ?? before[0]) + 1}.${Number(head ?? before[1]) + 1}`);
  return true;
}

/** Returns the present address of a page for an earlier one; undefined for present addresses. Unknown parameters are ignored when the link is read. */
export function redirected(hash: string): string | undefined {
  const [name, query = ''] = hash.slice(1).split('?', 2);
  const parameters = new URLSearchParams(query);
  const renamed = (target: string, names: Record<string, string>) => {
    const next = new URLSearchParams();
    for (const [key, value] of parameters) next.set(names[key] ?? key, value);
    renumber(target, next);
    const text = next.toString();
    return `#${target}${text && `?${text}`}`;
  };
  switch (name) {
    case 'start':
      return renamed('see', { text: 'a' });
    case 'hand':
      return renamed('compute', {});
    case 'text':
      return renamed(ofInside.some((key) => parameters.has(key)) ? 'inside' : 'meaning', {});
    case 'model':
      parameters.set('model', 'own');
      return renamed('meaning', {});
    case 'learning':
      return renamed(parameters.get('part') === 'labels' || parameters.has('classifier') ? 'teach' : 'learn', {
        part: 'from',
      });
    case 'inside':
    case 'learn':
      return renumber(name, parameters) ? `#${name}?${parameters}` : undefined;
    case 'lens':
      parameters.set('part', 'lens');
      return renamed('inside', { text: 'first', other: 'second' });
    default:
      return undefined;
  }
}
