import type { Slices } from '@tollway/chassis/slices.ts'
import type { DescriptorEntry } from '../../rules/match.ts'

/** The hits of a key with the active rules and with the proposed ones. */
export interface ComparedKeyHits {
  readonly entries: readonly DescriptorEntry[]
  readonly hits: number
  readonly refusedNow: number
  readonly refusedProposed: number
}

/** At most this many keys are compared. Hits of further keys are counted for the rules only. */
const maxComparedKeys = 50_000
const maxChangedKeys = 100

type Side = 'now' | 'proposed'

interface Compared {
  readonly entries: readonly DescriptorEntry[]
  readonly hits: Record<Side, number>
  readonly refused: Record<Side, number>
}

export class KeyComparison {
  readonly #keys = new Map<string, Compared>()

  add(
    side: Side,
    entries: readonly DescriptorEntry[],
    { hits, refused }: { hits: number; refused: number },
  ): void {
    const name = joinEntries(entries)
    let key = this.#keys.get(name)
    if (key === undefined) {
      if (this.#keys.size >= maxComparedKeys) return
      key = { entries, hits: { now: 0, proposed: 0 }, refused: { now: 0, proposed: 0 } }
      this.#keys.set(name, key)
    }
    key.hits[side] += hits
    key.refused[side] += refused
  }

  /** Resolves with at most 100 keys: those whose number of rejected hits changes most. */
  async changed(slices: Slices): Promise<readonly ComparedKeyHits[]> {
    const changed: ComparedKeyHits[] = []
    for (const { entries, hits, refused } of this.#keys.values()) {
      const resting = slices.yieldIfDue()
      if (resting !== undefined) await resting
      const { now: refusedNow, proposed: refusedProposed } = refused
      if (refusedNow === refusedProposed) continue
      changed.push({ entries, hits: Math.max(hits.now, hits.proposed), refusedNow, refusedProposed })
      if (changed.length === 4 * maxChangedKeys) keepMostChanged(changed)
    }
    keepMostChanged(changed)
    return changed
  }
}

function keepMostChanged(keys: ComparedKeyHits[]): void {
  const change = ({ refusedNow, refusedProposed }: ComparedKeyHits) => Math.abs(refusedProposed - refusedNow)
  keys.sort((a, b) => change(b) - change(a))
  keys.length = Math.min(keys.length, maxChangedKeys)
}

/** Joins keys and values with their lengths, which makes the name unambiguous. */
function joinEntries(entries: readonly DescriptorEntry[]): string {
  let name = ''
  for (const { key, value } of entries) name += `${key.length}:${key}${value.length}:${value}`
  return name
}
