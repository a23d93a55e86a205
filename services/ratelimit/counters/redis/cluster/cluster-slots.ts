import { type HostPort, isPort } from '../redis-address.ts'
import { isArrayReply, isErrorReply, type Reply } from '../resp/reply-parser.ts'
import { slotCount } from './hash-slot.ts'

/** The assignment of slots to masters, as reported by one node. */
export interface ClusterSlots {
  readonly ranges: readonly { readonly first: number; readonly last: number; readonly master: HostPort }[]
  /** The number of slots that have a master; the cluster is complete at `slotCount`. */
  readonly covered: number
}

/**
 * Reads the reply to CLUSTER SLOTS: first slot, last slot, master, replicas. A node is its host, its port and
 * more; an unknown host is null, empty or `?`.
 *
 * @param askedHost the host at which the replying node was reached; it replaces the node's own unknown host
 */
export function readClusterSlots(
  reply: Reply,
  askedHost: string,
): ClusterSlots | { readonly problem: string } {
  if (isErrorReply(reply)) return { problem: reply.error }
  if (!isArrayReply(reply)) return { problem: 'the reply to CLUSTER SLOTS is not a list' }
  const ranges: { first: number; last: number; master: HostPort }[] = []
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

function isSlot(value: Reply | undefined): value is number {
  return typeof value === 'number' && value >= 0 && value < slotCount
}

function readNode(node: Reply | undefined, askedHost: string): HostPort | undefined {
  const [host, port, , extra] = isArrayReply(node) ? node : []
  if (typeof port !== 'number' || !isPort(port)) return undefined
  if (typeof host === 'string' && host !== '' && host !== '?') return { host, port }
  return { host: ipIn(extra) ?? askedHost, port }
}

/**
 * A node that prefers a host name and has none reports its IP address in the metadata: name, value, name,
 * value.
 */
function ipIn(extra: Reply | undefined): string | undefined {
  if (!isArrayReply(extra)) return undefined
  const at = extra.indexOf('ip')
  const ip = at < 0 ? undefined : extra[at + 1]
  return typeof ip === 'string' && ip !== '' ? ip : undefined
}

/** The node that a command belongs to, from the error of a node that rejected it without running it. */
export interface Redirect extends HostPort {
  readonly slot: number
  /** Applies to this command alone, with ASKING before it: the slot is being migrated. */
  readonly asking: boolean
}

/**
 * Reads `MOVED 3999 host:port` and `ASK 3999 host:port`; undefined for any other error.
 *
 * @param askedHost the host at which the replying node was reached; it replaces an empty host
 */
export function readRedirect(error: string, askedHost: string): Redirect | undefined {
  const [, kind, slot = '', name = '', port] = /^(MOVED|ASK) (\d+) (.*):(\d+)$/.exec(error) ?? []
  if (kind === undefined || !isSlot(Number(slot)) || !isPort(Number(port))) return undefined
  const host = name === '' || name === '?' ? askedHost : name.replace(/^\[|\]$/g, '')
  return { asking: kind === 'ASK', slot: Number(slot), host, port: Number(port) }
}
