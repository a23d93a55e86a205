import type { Counters, Hit } from '../counters.ts'

type Add = Counters['add']

/**
 * Adds each hit at its owner, all owners at once, and joins the values. When one owner fails, the others may
 * have counted.
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
 * Where a key would exceed its limit counts only such keys, otherwise all, in the reference's two steps:
 * read, then count. Hits of other callers between the steps are not seen.
 */
export async function addInTwoSteps(add: Add, batch: readonly Hit[]): Promise<readonly number[]> {
  return add(stopOverLimit(batch, await add(batch.map(toReadOnly))))
}

/**
 * Returns the batch to count, given the counters' values before it: where a key would exceed its limit, other
 * keys are only read.
 */
export function stopOverLimit(batch: readonly Hit[], befores: readonly number[]): readonly Hit[] {
  const exceeds = ({ hits, limit }: Hit, position: number) => (befores[position] ?? 0) + hits > limit
  if (!batch.some(exceeds)) return batch
  return batch.map((hit, position) => (exceeds(hit, position) ? hit : toReadOnly(hit)))
}

export function toReadOnly(hit: Hit): Hit {
  return { ...hit, hits: 0 }
}
