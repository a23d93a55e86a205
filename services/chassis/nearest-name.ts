/** Longer texts get no suggestion, which bounds the time of the comparison. */
const maxNameCharacters = 64

/**
 * Returns the name with the fewest typing errors, at most one for every three characters (but 1 to 3);
 * undefined if none is so near. Case, `_` and `-` are ignored: `requests_per_unit` finds `requestsPerUnit`.
 */
export function nearestName(written: string, names: readonly string[]): string | undefined {
  if (written.length > maxNameCharacters) return undefined
  const plain = simplify(written)
  let best: { readonly name: string; readonly errors: number } | undefined
  for (const name of names) {
    const errors = countTypingErrors(plain, simplify(name))
    if (errors <= tolerated(name) && errors < (best?.errors ?? Infinity)) best = { name, errors }
  }
  return best?.name
}

function simplify(name: string): string {
  return name.toLowerCase().replaceAll(/[_-]/g, '')
}

function tolerated(name: string): number {
  return Math.min(3, Math.max(1, Math.floor(name.length / 3)))
}

/**
 * Returns the optimal string alignment distance: letters left out, added, replaced, or swapped with a
 * neighbour.
 */
function countTypingErrors(a: string, b: string): number {
  let beforeLast: number[] = []
  let last = Array.from({ length: b.length + 1 }, (_, column) => column)
  for (let row = 1; row <= a.length; row++) {
    const current = [row]
    for (let column = 1; column <= b.length; column++) {
      const differs = a[row - 1] === b[column - 1] ? 0 : 1
      let errors = Math.min(at(last, column) + 1, at(current, column - 1) + 1, at(last, column - 1) + differs)
      const swapped = a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1]
      if (row > 1 && column > 1 && swapped) errors = Math.min(errors, at(beforeLast, column - 2) + 1)
      current.push(errors)
    }
    beforeLast = last
    last = current
  }
  return at(last, b.length)
}

function at(row: readonly number[], column: number): number {
  return row[column] ?? Infinity
}
