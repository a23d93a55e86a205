/** What one of several claimants asks of a capacity. All numbers are whole. */
export interface Claim {
  readonly wanted: number
  /** At least 1. Claims that do not get what they want get parts in proportion to their weights. */
  readonly weight: number
  /** The claim gets this much, even if it wants less, before any claim gets more than its floor. */
  readonly floor: number
}

/**
 * Divides the capacity among claims by weighted max-min fairness: no claim can get more but from a claim that
 * has less for its weight. Claims get their floors first; the rest is divided by what each still wants.
 * Floors that exceed the capacity are scaled down.
 *
 * No claim gets more than it wants, or its floor. The sum is the capacity, or less if all have what they
 * want. Equal claims differ by at most 1, in favour of the earlier one.
 *
 * Sources: D. Bertsekas and R. Gallager, Data Networks, section 6.5.2 (max-min flow control); A. Demers,
 * S. Keshav and S. Shenker, Analysis and Simulation of a Fair Queueing Algorithm (1989); for floors, ATM
 * Forum TM 4.0, appendix I.3 (minimum cell rate plus equal share). FAIR_SHARE of youtube/doorman divides in
 * the same way, in numbers with fractions. Fractions are rounded by the method of the largest remainder.
 * Dominant-resource fairness (A. Ghodsi et al., 2011) divides several resources, of which a claim wants
 * different parts. Here there is one, the limit, and with one resource it is max-min fairness.
 *
 * @param capacity a whole number
 */
export function divide(capacity: number, claims: readonly Claim[]): number[] {
  let floors = 0
  let most = 0
  for (const { wanted, floor } of claims) {
    floors += floor
    most += Math.max(wanted, floor)
  }
  if (most <= capacity) return claims.map(({ wanted, floor }) => Math.max(wanted, floor))
  if (floors === 0) return fill(capacity, claims)
  if (floors >= capacity) return fill(capacity, claims.map(toScaled))
  const rest = fill(capacity - floors, claims.map(toRest))
  return rest.map((part, index) => part + (claims[index]?.floor ?? 0))
}

const toScaled = ({ floor }: Claim) => ({ wanted: floor, weight: Math.max(1, floor) })

const toRest = ({ wanted, weight, floor }: Claim) => ({ wanted: Math.max(0, wanted - floor), weight })

/** Divides among claims without floors, which want at least the capacity together. */
function fill(capacity: number, claims: readonly Pick<Claim, 'wanted' | 'weight'>[]): number[] {
  const level = findLevel(capacity, claims)
  let left = capacity
  const parts = claims.map(({ wanted, weight }) => {
    const part = Math.min(wanted, Math.floor(level * weight))
    left -= part
    return part
  })
  if (left <= 0) return parts
  const cut: number[] = []
  for (let index = 0; index < claims.length; index++) {
    if ((parts[index] as number) < (claims[index] as Claim).wanted) cut.push(index)
  }
  const remainder = (index: number) => level * (claims[index] as Claim).weight - (parts[index] as number)
  cut.sort((one, other) => remainder(other) - remainder(one))
  for (let nth = 0; nth < left; nth++) (parts[cut[nth] as number] as number) += 1
  return parts
}

/**
 * Returns what claims of weight 1 get if they want at least this much. The level rises from that of an equal
 * division: each pass divides what the claims below the level leave among those above it. It ends when no
 * more claims are below, after a few passes.
 */
function findLevel(capacity: number, claims: readonly Pick<Claim, 'wanted' | 'weight'>[]): number {
  let level = 0
  for (;;) {
    let left = capacity
    let weights = 0
    for (const { wanted, weight } of claims) {
      if (wanted <= level * weight) left -= wanted
      else weights += weight
    }
    const next = weights === 0 ? level : left / weights
    if (next <= level) return level
    level = next
  }
}
