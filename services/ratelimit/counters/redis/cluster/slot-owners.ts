import { slotCount } from './hash-slot.ts'

/** The owner of each slot of a cluster. */
export interface SlotOwners<Node> {
  of(slot: number): Node | undefined
  /** Assigns one slot to a node, in constant time: a cluster that migrates slots redirects slot by slot. */
  set(slot: number, node: Node): void
  /** Replaces all owners. */
  replace(ranges: readonly SlotRange<Node>[]): void
  /** The nodes that own a slot. */
  readonly masters: ReadonlySet<Node>
  /** The number of slots without an owner. */
  readonly missing: number
}

export interface SlotRange<Node> {
  /** The first and the last slot of the range. */
  readonly first: number
  readonly last: number
  readonly master: Node
}

/** @param onMasters called after `masters` or `missing` has changed */
export function createSlotOwners<Node>(onMasters: () => void): SlotOwners<Node> {
  return new CountedOwners(onMasters)
}

/** A class, since V8 keeps an object literal with accessors as a hash table. */
class CountedOwners<Node> implements SlotOwners<Node> {
  readonly #onMasters: () => void
  readonly #owners: (Node | undefined)[] = Array(slotCount).fill(undefined)
  /** The number of slots of each master. */
  readonly #counts = new Map<Node, number>()
  masters = new Set<Node>()
  missing = slotCount

  constructor(onMasters: () => void) {
    this.#onMasters = onMasters
  }

  of(slot: number): Node | undefined {
    return this.#owners[slot]
  }

  set(slot: number, node: Node): void {
    const { size } = this.masters
    const { missing } = this
    const isKnown = this.masters.has(node)
    this.#give(slot, node)
    if (!isKnown || this.masters.size !== size || this.missing !== missing) this.#onMasters()
  }

  replace(ranges: readonly SlotRange<Node>[]): void {
    this.#owners.fill(undefined)
    this.#counts.clear()
    this.masters.clear()
    this.missing = slotCount
    for (const { first, last, master } of ranges) {
      for (let slot = first; slot <= last; slot += 1) this.#give(slot, master)
    }
    this.#onMasters()
  }

  #give(slot: number, node: Node): void {
    const before = this.#owners[slot]
    if (before === node) return
    this.#owners[slot] = node
    this.#counts.set(node, (this.#counts.get(node) ?? 0) + 1)
    this.masters.add(node)
    if (before === undefined) {
      this.missing -= 1
      return
    }
    const left = (this.#counts.get(before) ?? 0) - 1
    this.#counts.set(before, left)
    if (left > 0) return
    this.#counts.delete(before)
    this.masters.delete(before)
  }
}
