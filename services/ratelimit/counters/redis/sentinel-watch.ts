import type { Backoff } from '@tollway/chassis/backoff.ts'
import { RefreshSchedule } from '../connections/refresh-schedule.ts'
import { isPort, type NodeAddress } from './redis-address.ts'
import { RespConnection } from './resp/connection.ts'
import { isArrayReply, isErrorReply, type RedisReply } from './resp/reply-parser.ts'
import { type RedisSessionOptions, sendCommand } from './resp/session.ts'

interface SentinelWatchOptions {
  readonly master: string
  readonly sentinels: readonly NodeAddress[]
  readonly session: Omit<RedisSessionOptions, 'endpoint'>
  readonly newBackoff: () => Backoff
  /** Called with each answer, whether it has changed or not. */
  readonly onMaster: (master: NodeAddress) => void
  /** Returns whether the reported master is healthy; until it is, the sentinels are asked more often. */
  readonly isServing: () => boolean
  readonly random: () => number
}

const everyMs = 1_000
const urgentMs = 100
const maxUrgentMs = 500
/** A vote is decided after this time, even if some sentinels have not answered. */
const voteTimeoutMs = 500

/**
 * Finds the master by a vote of all sentinels. After a failover most of them know the new master, while one
 * that was partitioned may still report the old one.
 */
export class SentinelWatch {
  readonly #options: SentinelWatchOptions
  readonly #connections: readonly RespConnection[]
  readonly #schedule: RefreshSchedule
  #closed = false
  /** Why no sentinel has named the master, from the latest vote without an answer. */
  problem = 'no sentinel has answered yet'

  constructor(options: SentinelWatchOptions) {
    const { sentinels, session, newBackoff, isServing, random } = options
    this.#options = options
    this.#connections = sentinels.map(
      endpoint => new RespConnection({ ...session, endpoint, backoff: newBackoff() }),
    )
    this.#schedule = new RefreshSchedule({
      refresh: () => this.#refresh(),
      isSettled: isServing,
      everyMs,
      urgentMs,
      maxUrgentMs,
      random,
    })
    // Asks as soon as the first sentinel is connected.
    for (const connection of this.#connections) {
      connection.onHealth(healthy => {
        if (healthy && !isServing()) this.refreshSoon()
      })
    }
  }

  /**
   * Asks the sentinels soon; without a request they are asked every second, or more often while the master is
   * away.
   */
  refreshSoon(): void {
    this.#schedule.refreshSoon()
  }

  async close(): Promise<void> {
    this.#closed = true
    this.#schedule.close()
    await Promise.all(this.#connections.map(connection => connection.close()))
  }

  async #refresh(): Promise<void> {
    const { master, onMaster } = this.#options
    const found = await vote(this.#connections, master)
    if (this.#closed) return
    if ('problem' in found) this.problem = found.problem
    else onMaster(found)
  }
}

type Ballot = NodeAddress | { readonly problem: string }

/**
 * Resolves with the answer that more than half of all sentinels gave, as soon as there is one. Otherwise,
 * when all have answered or `voteTimeoutMs` has passed, it resolves with the most frequent answer; of equally
 * frequent ones, with that of the sentinel that is listed first.
 */
function vote(connections: readonly RespConnection[], master: string): Promise<Ballot> {
  const { promise, resolve } = Promise.withResolvers<Ballot>()
  const ballots: (Ballot | undefined)[] = connections.map(() => undefined)
  const timer = setTimeout(decide, voteTimeoutMs)

  function decide(): void {
    clearTimeout(timer)
    const late = { problem: `no sentinel answered within ${voteTimeoutMs} ms` }
    resolve(mostFrequent(ballots)?.ballot ?? ballots.find(ballot => ballot !== undefined) ?? late)
  }

  for (const [index, connection] of connections.entries()) {
    void sendCommand(connection, 'SENTINEL', 'get-master-addr-by-name', master).then(reply => {
      ballots[index] = readMaster(reply, master)
      const votes = mostFrequent(ballots)?.votes ?? 0
      if (2 * votes > ballots.length || !ballots.includes(undefined)) decide()
    })
  }
  return promise
}

function readMaster(reply: RedisReply, master: string): Ballot {
  if (isErrorReply(reply)) return { problem: `no sentinel reports the master: ${reply.error}` }
  if (reply === null) return { problem: `the sentinels know no master named ${master}` }
  const [host, digits] = isArrayReply(reply) ? reply : []
  const port = Number(digits)
  if (typeof host === 'string' && host !== '' && isPort(port)) return { host, port }
  return { problem: 'a sentinel reported the master in an unknown form' }
}

function mostFrequent(ballots: readonly (Ballot | undefined)[]) {
  const counts = new Map<string, { readonly ballot: NodeAddress; votes: number }>()
  for (const ballot of ballots) {
    if (ballot === undefined || 'problem' in ballot) continue
    const address = `${ballot.host} ${ballot.port}`
    const count = counts.get(address) ?? { ballot, votes: 0 }
    count.votes += 1
    counts.set(address, count)
  }
  let most: { readonly ballot: NodeAddress; readonly votes: number } | undefined
  for (const count of counts.values()) if (count.votes > (most?.votes ?? 0)) most = count
  return most
}
