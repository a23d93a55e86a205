import { slotCount } from './hash-slot.ts'
import { type HostPort, isPort } from './redis-address.ts'
import { isArrayReply, isErrorReply, type Reply } from './resp/reply-parser.ts'

/** Who holds which slots, as one node tells it. */
export interface ClusterSlots {
  readonly ranges: readonly { readonly first: number; readonly last: number; readonly master: HostPort }[]
  /** How many slots have a master; the whole cluster is there when it is `slotCount`. */
  readonly covered: number
}

/**
 * Reads the reply to CLUSTER SLOTS: first slot, last slot, master, replicas. A node is its host, its port and
 * more; a host that is not known stands as nothing, as the empty text or as `?`.
 *
 * @param askedHost where the node that told it was reached; it stands for its own unknown host
 */
export function readClusterSlots(
  reply: Reply,
  askedHost: string,
): ClusterSlots | { readonly problem: string } {
  if (isErrorReply(reply)) return { problem: reply.error }
  if (!isArrayReply(reply)) return { problem: 'CLUSTER SLOTS brought no list' }
  const ranges: { first: number; last: number; master: HostPort }[] = []
  let covered = 0
  for (const item of reply) {
    const [first, last, node] = isArrayReply(item) ? item : []
    const master = readNode(node, askedHost)
    if (!isSlot(first) || !isSlot(last) || master === undefined) {
      return { problem: 'CLUSTER SLOTS brought what is no range of slots' }
    }
    ranges.push({ first, last, master })
    covered += Math.max(0, last - first + 1)
  }
  return { ranges, covered }
}

function isSlot(value: Reply | undefined): value is number {
  return typeof value === 'number' && value >= 0 && value < slotCount
}

function readNode(node: Reply | undefined, askedHost: string): HostPort | undefined {
  const [told, port, , extra] = isArrayReply(node) ? node : []
  if (typeof port !== 'number' || !isPort(port)) return undefined
  if (typeof told === 'string' && told !== '' && told !== '?') return { host: told, port }
  return { host: ipIn(extra) ?? askedHost, port }
}

/** A node that prefers a host name and has none tells its address among more: name, value, name, value. */
function ipIn(extra: Reply | undefined): string | undefined {
  if (!isArrayReply(extra)) return undefined
  const at = extra.indexOf('ip')
  const ip = at < 0 ? undefined : extra[at + 1]
  return typeof ip === 'string' && ip !== '' ? ip : undefined
}

/** Where a command belongs that a node has refused without running it. */
export interface Redirect extends HostPort {
  readonly slot: number
  /** Only this command, with ASKING before it: the slot is on its way. */
  readonly asking: boolean
}

/**
 * Reads `MOVED 3999 host:port` and `ASK 3999 host:port`; undefined for any other error.
 *
 * @param askedHost where the node that said it was reached; an empty host stands for that
 */
export function readRedirect(error: string, askedHost: string): Redirect | undefined {
  const [, kind, slot = '', told = '', port] = /^(MOVED|ASK) (\d+) (.*):(\d+)$/.exec(error) ?? []
  if (kind === undefined || !isSlot(Number(slot)) || !isPort(Number(port))) return undefined
  const host = told === '' || told === '?' ? askedHost : told.replace(/^\[|\]$/g, '')
  return { asking: kind === 'ASK', slot: Number(slot), host, port: Number(port) }
}
