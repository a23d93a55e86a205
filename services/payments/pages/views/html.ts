/** Escaped HTML. Only `html` creates it, so that text from outside is always escaped. */
export interface Markup {
  readonly [markup]: string
}

const markup = Symbol('markup')

/** The content of a template. null, undefined and false render nothing. */
type Content = string | number | bigint | Markup | readonly Markup[] | null | undefined | false

const escapes: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

/**
 * Escapes the text of an element or of an attribute in quotes. It is not safe for scripts, styles and
 * addresses.
 */
export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, character => escapes[character] ?? character)
}

/** A template of HTML. Everything put into it is escaped, unless it is the result of another template. */
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
