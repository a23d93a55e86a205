/** A claim of `services/ratelimit/shares/divide.ts`. */
interface OracleClaim {
  readonly wanted: number
  readonly weight: number
  readonly floor: number
}

/**
 * Returns what each claim gets of a capacity that can be divided at will: its floor, and its weight times a
 * level, but not more than it wants. The level is found by bisection.
 */
export function maxMin(capacity: number, claims: readonly OracleClaim[]): readonly number[] {
  const floors = sum(claims.map(({ floor }) => floor))
  if (floors >= capacity) return claims.map(({ floor }) => (floors === 0 ? 0 : (floor * capacity) / floors))
  const partsAt = (level: number) =>
    claims.map(({ wanted, weight, floor }) => Math.max(floor, Math.min(wanted, floor + level * weight)))
  let [low, high] = [0, Math.max(1, ...claims.map(({ wanted }) => wanted))]
  if (sum(partsAt(high)) <= capacity) return partsAt(high)
  for (let halvings = 0; halvings < 100; halvings++) {
    const middle = (low + high) / 2
    if (sum(partsAt(middle)) <= capacity) low = middle
    else high = middle
  }
  return partsAt(low)
}

const sum = (numbers: readonly number[]) => numbers.reduce((total, each) => total + each, 0)
