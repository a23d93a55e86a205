/** Returns the name that is most similar to a mistyped one; undefined if none is similar. */
export function nearestName(mistyped: string, names: readonly string[]): string | undefined {
  const maxChanges = Math.max(1, Math.floor(mistyped.length / 3))
  const rated = names
    .map(name => ({ name, changes: changesBetween(mistyped, name) }))
    .filter(({ name, changes }) => changes <= maxChanges || (mistyped !== '' && name.startsWith(mistyped)))
  return rated.sort((a, b) => a.changes - b.changes)[0]?.name
}

const maxCompared = 64

/** The number of insertions, deletions, replacements and swaps of neighbours that lead from a to b. */
function changesBetween(a: string, b: string): number {
  if (a.length > maxCompared || b.length > maxCompared) return Number.POSITIVE_INFINITY
  let beforeLast: readonly number[] = []
  let last: readonly number[] = Array.from({ length: b.length + 1 }, (_, column) => column)
  for (let row = 1; row <= a.length; row += 1) {
    const current = [row]
    for (let column = 1; column <= b.length; column += 1) {
      const at = (line: readonly number[], index: number) => line[index] ?? Number.POSITIVE_INFINITY
      const isSame = a[row - 1] === b[column - 1]
      const isSwap = a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1]
      current[column] = Math.min(
        at(last, column) + 1,
        at(current, column - 1) + 1,
        at(last, column - 1) + (isSame ? 0 : 1),
        isSwap ? at(beforeLast, column - 2) + 1 : Number.POSITIVE_INFINITY,
      )
    }
    beforeLast = last
    last = current
  }
  return last[b.length] ?? Number.POSITIVE_INFINITY
}
