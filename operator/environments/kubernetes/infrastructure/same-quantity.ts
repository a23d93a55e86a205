const suffixes: Readonly<Record<string, number>> = {
  n: 1e-9,
  u: 1e-6,
  m: 1e-3,
  '': 1,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  E: 1e18,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
  Pi: 2 ** 50,
  Ei: 2 ** 60,
}

/**
 * Returns whether two quantities of Kubernetes are equal: `0.5` and `500m`, 1 and `1000m`, `1024Mi` and
 * `1Gi`. A text that is not a quantity is equal only to itself.
 */
export function sameQuantity(a: unknown, b: unknown): boolean {
  if (a === b) return true
  const [left, right] = [toNumber(a), toNumber(b)]
  // The API server rounds up to whole billionths; the tolerance is the error of binary fractions.
  return Math.abs(left - right) <= Math.max(Math.abs(left), Math.abs(right)) * 1e-12
}

/** Returns NaN for a value that is not a quantity. */
function toNumber(value: unknown): number {
  if (typeof value === 'number') return value
  if (typeof value !== 'string') return Number.NaN
  const [, digits = '', suffix = ''] =
    /^([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)([numkMGTPE]i?|Ki|)$/.exec(value) ?? []
  return digits === '' ? Number.NaN : Number(digits) * (suffixes[suffix] ?? Number.NaN)
}
