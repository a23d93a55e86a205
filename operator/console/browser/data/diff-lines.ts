/** A line of a unified diff: it begins with `+`, `-`, a space, or `@@`. */
type DiffLine = string

const context = 2
/**
 * The maximum number of pairs of lines that are compared. Beyond it, all lines of the changed part count as
 * changed.
 */
const maxPairs = 4_000_000

/** Returns the changed lines of a text, with two lines of context around each change. */
export function diffLines(before: string, after: string): readonly DiffLine[] {
  const [old, next] = [before.split('\n'), after.split('\n')]
  const shorter = Math.min(old.length, next.length)
  let start = 0
  while (start < shorter && old[start] === next[start]) start += 1
  let end = 0
  while (end < shorter - start && old.at(-1 - end) === next.at(-1 - end)) end += 1
  const changed = diffMiddle(old.slice(start, old.length - end), next.slice(start, next.length - end))
  if (changed.length === 0) return []
  const all = [
    ...old.slice(0, start).map(line => ` ${line}`),
    ...changed,
    ...old.slice(old.length - end).map(line => ` ${line}`),
  ]
  const isNear = (index: number) =>
    all.slice(Math.max(0, index - context), index + context + 1).some(line => !line.startsWith(' '))
  let number = 0
  return all.flatMap((line, index) => {
    if (!line.startsWith('-')) number += 1
    if (!isNear(index)) return []
    return index > 0 && isNear(index - 1) ? [line] : [`@@ line ${number} @@`, line]
  })
}

/** Compares two lists of lines by their longest common subsequence. */
function diffMiddle(old: readonly string[], next: readonly string[]): readonly DiffLine[] {
  const removed = old.map(line => `-${line}`)
  const added = next.map(line => `+${line}`)
  if (old.length * next.length > maxPairs) return [...removed, ...added]
  const width = next.length + 1
  const common = new Uint32Array((old.length + 1) * width)
  const at = (row: number, column: number) => common[row * width + column] ?? 0
  for (let row = old.length - 1; row >= 0; row--) {
    for (let column = next.length - 1; column >= 0; column--) {
      common[row * width + column] =
        old[row] === next[column]
          ? at(row + 1, column + 1) + 1
          : Math.max(at(row + 1, column), at(row, column + 1))
    }
  }
  const lines: DiffLine[] = []
  let row = 0
  let column = 0
  while (row < old.length && column < next.length) {
    if (old[row] === next[column]) {
      lines.push(` ${old[row]}`)
      row += 1
      column += 1
    } else if (at(row + 1, column) >= at(row, column + 1)) lines.push(`-${old[row++]}`)
    else lines.push(`+${next[column++]}`)
  }
  return [...lines, ...removed.slice(row), ...added.slice(column)]
}
