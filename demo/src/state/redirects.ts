/** Addresses of earlier versions of the page. */

/** Parameters of the former page “Your text” that belong to the heads and the hidden states. */
const ofInside = ['layer', 'head', 'view', 'token', 'step', 'sentence'];

/** Returns the present address of a page for an earlier one; undefined for present addresses. Unknown parameters are ignored when the link is read. */
export function redirected(hash: string): string | undefined {
  const [name, query = ''] = hash.slice(1).split('?', 2);
  const parameters = new URLSearchParams(query);
  const renamed = (target: string, names: Record<string, string>) => {
    const next = new URLSearchParams();
    for (const [key, value] of parameters) next.set(names[key] ?? key, value);
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
    case 'lens':
      parameters.set('part', 'lens');
      return renamed('inside', { text: 'first', other: 'second' });
    default:
      return undefined;
  }
}
