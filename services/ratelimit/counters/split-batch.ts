import type { Counters, Hit } from './counters.ts'

type Add = Counters['add']

/**
 * Gives each hit to its owner, all at once, and joins the values. When one of them fails the others may have
 * counted.
 *
 * @param ownerOf of the hit at that place
 */
export async function addSplit<Owner>(
  batch: readonly Hit[],
  ownerOf: (hit: Hit, place: number) => Owner,
  addTo: (owner: Owner, part: readonly Hit[]) => ReturnType<Add>,
): Promise<readonly number[]> {
  const parts = new Map<Owner, { readonly hits: Hit[]; readonly places: number[] }>()
  for (const [place, hit] of batch.entries()) {
    const owner = ownerOf(hit, place)
    const part = parts.get(owner) ?? { hits: [], places: [] }
    parts.set(owner, part)
    part.hits.push(hit)
    part.places.push(place)
  }
  const all: number[] = batch.map(() => 0)
  await Promise.all(
    [...parts].map(async ([owner, { hits, places }]) => {
      const values = await addTo(owner, hits)
      for (const [index, place] of places.entries()) all[place] = values[index] ?? 0
    }),
  )
  return all
}

/**
 * Where a key would exceed its limit counts only such keys, otherwise all, in the reference's two steps: look,
 * then count. What others count between the steps is not seen.
 */
export async function addInTwoSteps(add: Add, batch: readonly Hit[]): Promise<readonly number[]> {
  return add(stoppedBatch(batch, await add(batch.map(look))))
}

/**
 * What is left of a batch, given the counters' values before it: where a key would exceed its limit, other
 * keys are only looked at.
 */
export function stoppedBatch(batch: readonly Hit[], befores: readonly number[]): readonly Hit[] {
  const exceeds = ({ hits, limit }: Hit, place: number) => (befores[place] ?? 0) + hits > limit
  if (!batch.some(exceeds)) return batch
  return batch.map((hit, place) => (exceeds(hit, place) ? hit : look(hit)))
}

export function look(hit: Hit): Hit {
  return { ...hit, hits: 0 }
}
