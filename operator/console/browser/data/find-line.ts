/**
 * Returns the line, from 1, of a field such as `spec.descriptors[0].rateLimit.unit` in a YAML text. If the
 * field itself does not begin a line, as in flow style, returns the line of the deepest parent that does;
 * undefined if none does. Only the indentation of block style is read.
 */
export function findFieldLine(text: string, field: string): number | undefined {
  const lines = text.split('\n')
  let from = 0
  let to = lines.length
  let found: number | undefined
  for (const part of field.match(/[^.[\]]+/g) ?? []) {
    const children = listChildren(lines, from, to)
    const isItem = /^\d+$/.test(part) && (lines[children[0] ?? -1] ?? '').trimStart().startsWith('-')
    const index = isItem ? Number(part) : children.findIndex(line => readKey(lines[line] ?? '') === part)
    const line = children[index]
    if (line === undefined) break
    found = line + 1
    to = children[index + 1] ?? to
    // The first field of an item can be on the line of the dash.
    if (isItem) lines[line] = (lines[line] ?? '').replace('-', ' ')
    from = isItem ? line : line + 1
  }
  return found
}

/** Returns the indexes of the lines with the smallest indentation: the fields or items of one level. */
function listChildren(lines: readonly string[], from: number, to: number): readonly number[] {
  const all = Array.from({ length: Math.max(0, to - from) }, (_, index) => from + index)
  const written = all.filter(line => /^\s*[^\s#]/.test(lines[line] ?? ''))
  const indent = (line: number) => (lines[line] ?? '').search(/\S/)
  const least = Math.min(...written.map(indent))
  const children = written.filter(line => indent(line) === least)
  const isItem = (line: number) => (lines[line] ?? '').trimStart().startsWith('-')
  // The items of a list can have the same indentation as the key of the list.
  return children.some(line => !isItem(line)) ? children.filter(line => !isItem(line)) : children
}

const readKey = (line: string) => /^\s*["']?([^"':]+)["']?\s*:/.exec(line)?.[1]
