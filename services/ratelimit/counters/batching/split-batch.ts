import type { Counters, Hit } from '../counters.ts'

type Add = Counters['add']

/**
 * Adds each hit through its owner, to all owners at once, and returns the values in the order of the batch.
 * When one owner fails, the others may have counted.
 *
 * @param ownerOf returns the owner of the hit at the index `position`
 */
export async function addSplit<Owner>(
  batch: readonly Hit[],
  ownerOf: (hit: Hit, position: number) => Owner,
  addTo: (owner: Owner, part: readonly Hit[]) => ReturnType<Add>,
): Promise<readonly number[]> {
  const parts = new Map<Owner, { readonly hits: Hit[]; readonly positions: number[] }>()
  for (const [position, hit] of batch.entries()) {
    const owner = ownerOf(hit, position)
    const part = parts.get(owner) ?? { hits: [], positions: [] }
    parts.set(owner, part)
    part.hits.push(hit)
    part.positions.push(position)
  }
  const all: number[] = batch.map(() => 0)
  await Promise.all(
    [...parts].map(async ([owner, { hits, positions }]) => {
      const values = await addTo(owner, hits)
      for (const [index, position] of positions.entries()) all[position] = values[index] ?? 0
    }),
  )
  return all
}

/**
 * Counts in two steps, read and then add, as envoyproxy/ratelimit does: if any key would exceed its limit,
 * only the keys that would are incremented; otherwise all are. Hits that other callers add between the steps
 * are not seen.
 */
export async function addInTwoSteps(add: Add, batch: readonly Hit[]): Promise<readonly number[]> {
  return add(stopOverLimit(batch, await add(batch.map(toReadOnly))))
}

/**
 * Returns the batch to add, given the counters' values before it. If any key would exceed its limit, the hits
 * of the keys that would not are replaced by reads, except hits that are given back.
 */
export function stopOverLimit(batch: readonly Hit[], befores: readonly number[]): readonly Hit[] {
  const exceeds = ({ hits, limit }: Hit, position: number) =>
    hits >= 0 && (befores[position] ?? 0) + hits > limit
  if (!batch.some(exceeds)) return batch
  return batch.map((hit, position) => (exceeds(hit, position) ? hit : withoutCounting(hit)))
}

/** Replaces the hits by a read, unless they are given back. */
export function withoutCounting(hit: Hit): Hit {
  return hit.hits < 0 ? hit : toReadOnly(hit)
}

export function toReadOnly(hit: Hit): Hit {
  return { ...hit, hits: 0 }
}
