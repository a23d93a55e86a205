/** Escaped HTML. Only `html` creates it, so that text from outside is always escaped. */
export interface Markup {
  readonly [markup]: string
}

const markup = Symbol('markup')

/** A value in a template. null, undefined and false render nothing. */
type Content = string | number | bigint | Markup | readonly Markup[] | null | undefined | false

const escapes: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

/** Escapes text for elements and quoted attributes. The result is not safe in scripts, styles and URLs. */
function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, character => escapes[character] ?? character)
}

/** Creates HTML from a template. Escapes each value, unless it is `Markup` from another template. */
export function html(parts: TemplateStringsArray, ...contents: readonly Content[]): Markup {
  let text = parts[0] ?? ''
  for (const [index, content] of contents.entries()) text += render(content) + (parts[index + 1] ?? '')
  return { [markup]: text }
}

function render(content: Content): string {
  if (content === null || content === undefined || content === false) return ''
  if (typeof content !== 'object') return escapeHtml(String(content))
  return markup in content ? content[markup] : content.map(renderHtml).join('')
}

export function renderHtml(content: Markup): string {
  return content[markup]
}
