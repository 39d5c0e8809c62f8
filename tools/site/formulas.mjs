// Formulas of Markdown files, `$…$` and `$$…$$` as on GitHub, in the documentation's site and in the printed course. KaTeX renders them
// while these are built: pages need no script, screen readers read its MathML, and unlike MathML alone, it looks the same without a
// mathematical font.
import katex from '../checks/node_modules/katex/dist/katex.mjs';

/** A formula at the beginning of `text`: its delimiter and its TeX. */
const FORMULA = /^(\$\$?)(?!\s)([^$]+?)(?<!\s)\1(?!\d)/;

/** What TeX looks like in lists of headings, which have no markup. */
const plain = (tex) => tex.replaceAll('\\infty', '∞').replace(/\\sqrt\{(\w+)\}/g, '√$1');

/**
 * A plugin of markdown-it.
 * @param {import('markdown-it').default} markdown
 * @param {{ output?: 'htmlAndMathml' | 'mathml' }} options htmlAndMathml needs KaTeX's style sheet
 */
export function formulas(markdown, { output = 'htmlAndMathml' } = {}) {
  markdown.inline.ruler.after('escape', 'formula', (state, silent) => {
    const [whole, delimiter, tex] = FORMULA.exec(state.src.slice(state.pos, state.posMax)) ?? [];
    if (whole === undefined) return false;
    if (!silent) {
      const token = state.push('formula', '', 0);
      token.content = tex;
      token.markup = delimiter;
      // TypeDoc takes a heading's text from here.
      const text = new state.Token('text', '', 0);
      text.content = plain(tex);
      token.children = [text];
    }
    state.pos += whole.length;
    return true;
  });
  markdown.renderer.rules.formula = (tokens, i) => {
    const { content, markup } = tokens[i];
    return katex.renderToString(content, { displayMode: markup === '$$', output, strict: 'error' });
  };
}
