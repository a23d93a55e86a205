import { isPort, type NodeAddress } from '../redis-address.ts'
import { isArrayReply, isErrorReply, type RedisReply } from '../resp/reply-parser.ts'
import { slotCount } from './hash-slot.ts'

interface SlotRange<Node> {
  readonly first: number
  readonly last: number
  readonly master: Node
}

export class SlotOwners<Node> {
  readonly #onMasters: () => void
  readonly #owners: (Node | undefined)[] = Array(slotCount).fill(undefined)
  readonly #counts = new Map<Node, number>()
  readonly masters = new Set<Node>()
  missing = slotCount

  /** @param onMasters called after `masters` or `missing` has changed */
  constructor(onMasters: () => void) {
    this.#onMasters = onMasters
  }

  of(slot: number): Node | undefined {
    return this.#owners[slot]
  }

  /** Assigns one slot to a node, in constant time: while slots migrate, each is redirected separately. */
  set(slot: number, node: Node): void {
    const { size } = this.masters
    const { missing } = this
    const isKnown = this.masters.has(node)
    this.#give(slot, node)
    if (!isKnown || this.masters.size !== size || this.missing !== missing) this.#onMasters()
  }

  /** Replaces all owners; a slot in none of the ranges has no owner then. */
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

/** The assignment of slots to masters, as reported by one node. */
export interface ClusterSlots {
  readonly ranges: readonly SlotRange<NodeAddress>[]
  /** The number of slots that have a master; the cluster is complete at `slotCount`. */
  readonly covered: number
}

/**
 * Reads the reply to CLUSTER SLOTS: a list of ranges, each with its first slot, last slot, master and
 * replicas. A node is a list of host, port and further items; an unknown host is null, empty or `?`.
 *
 * @param askedHost the host at which the replying node was reached; it stands in for an unknown host
 */
export function readClusterSlots(
  reply: RedisReply,
  askedHost: string,
): ClusterSlots | { readonly problem: string } {
  if (isErrorReply(reply)) return { problem: reply.error }
  if (!isArrayReply(reply)) return { problem: 'the reply to CLUSTER SLOTS is not a list' }
  const ranges: SlotRange<NodeAddress>[] = []
  let covered = 0
  for (const item of reply) {
    const [first, last, node] = isArrayReply(item) ? item : []
    const master = readNode(node, askedHost)
    if (!isSlot(first) || !isSlot(last) || master === undefined) {
      return { problem: 'the reply to CLUSTER SLOTS has an item that is not a slot range' }
    }
    ranges.push({ first, last, master })
    covered += Math.max(0, last - first + 1)
  }
  return { ranges, covered }
}

function isSlot(value: RedisReply | undefined): value is number {
  return typeof value === 'number' && value >= 0 && value < slotCount
}

function readNode(node: RedisReply | undefined, askedHost: string): NodeAddress | undefined {
  const [host, port, , extra] = isArrayReply(node) ? node : []
  if (typeof port !== 'number' || !isPort(port)) return undefined
  if (typeof host === 'string' && host !== '' && host !== '?') return { host, port }
  return { host: ipIn(extra) ?? askedHost, port }
}

/**
 * Returns the IP address in a node's metadata, a list of names and values. A node that should report a host
 * name and has none reports the address there.
 */
function ipIn(extra: RedisReply | undefined): string | undefined {
  if (!isArrayReply(extra)) return undefined
  const at = extra.indexOf('ip')
  const ip = at < 0 ? undefined : extra[at + 1]
  return typeof ip === 'string' && ip !== '' ? ip : undefined
}

/** The node that a command belongs to, as named by a node that rejected the command without running it. */
export interface Redirect extends NodeAddress {
  readonly slot: number
  /** True if the slot is being migrated: the redirect applies to this command alone, sent after ASKING. */
  readonly asking: boolean
}

/**
 * Reads `MOVED 3999 host:port` and `ASK 3999 host:port`; undefined for any other error.
 *
 * @param askedHost the host at which the replying node was reached; it stands in for an unknown host
 */
export function readRedirect(error: string, askedHost: string): Redirect | undefined {
  const [, kind, slot = '', name = '', port] = /^(MOVED|ASK) (\d+) (.*):(\d+)$/.exec(error) ?? []
  if (kind === undefined || !isSlot(Number(slot)) || !isPort(Number(port))) return undefined
  const host = name === '' || name === '?' ? askedHost : name.replace(/^\[|\]$/g, '')
  return { asking: kind === 'ASK', slot: Number(slot), host, port: Number(port) }
}
