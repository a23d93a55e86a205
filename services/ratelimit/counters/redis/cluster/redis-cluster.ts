import { systemClock } from '@tollway/chassis/clock.ts'
import type { Member, MemberOutcome } from '../../admission/member.ts'
import { type Again, type OnAnswers, type Send, sendAgain } from '../../batching/send.ts'
import { addInTwoSteps, addSplit } from '../../batching/split-batch.ts'
import { createRefreshSchedule } from '../../connections/refresh-schedule.ts'
import { CountersError, type Hit } from '../../counters.ts'
import { withHealth } from '../../with-health.ts'
import { findScriptObstacle } from '../find-script-obstacle.ts'
import type { HostPort } from '../redis-address.ts'
import { createRedisNode, type Follow, type RedisNode } from '../redis-node.ts'
import type { RedisCounters, RedisSetup } from '../redis-setup.ts'
import { ask, askOnce } from '../resp/ask.ts'
import { createRespConnection } from '../resp/connection.ts'
import { type ClusterSlots, type Redirect, readClusterSlots, readRedirect } from './cluster-slots.ts'
import { slotCount, slotOf } from './hash-slot.ts'
import { createSlotOwners } from './slot-owners.ts'

const hurryMs = 100
const maxHurryMs = 500
/** A master without slots is closed after this time. */
const lingerMs = 1_000
/** The most redirects of a command; the limit ends a loop between two nodes that redirect to each other. */
const maxRedirects = 4
const closedText = 'the counters are closed'

interface ClusterNode extends RedisNode {
  readonly place: HostPort
  /** Commands that wait for the connection to become healthy. */
  readonly waiting: Set<() => void>
  /** When a node last reported that this one has a slot. */
  namedMs: number
}

/**
 * Counters in a Redis Cluster. Each master has one connection with its own writes; a batch is divided by the
 * owners of its keys' slots.
 *
 * An increment that was answered with MOVED or ASK had no effect, so it is sent once to the node that the
 * reply names, and the slots are refreshed. The slots are also refreshed every few seconds, and more often
 * while a master is away. Healthy while each slot has a master that answers.
 */
export function createClusterCounters(setup: RedisSetup, seeds: readonly HostPort[]): RedisCounters {
  const { session, pool, newBackoff, newBreaker, limits, stopWhenOver, random } = setup
  const { clock = systemClock } = limits
  const nodes = new Map<string, ClusterNode>()
  const owners = createSlotOwners<ClusterNode>(checkHealth)
  let askProblem = 'no node has answered yet'
  const listeners: ((healthy: boolean) => void)[] = []
  let healthy = false
  let closed = false
  const schedule = createRefreshSchedule({
    refresh,
    isSettled: () => healthy,
    everyMs: setup.clusterRefreshMs,
    hurryMs,
    maxHurryMs,
    random,
    clock,
  })

  function nodeAt({ host, port }: HostPort): ClusterNode {
    const name = `${host} ${port}`
    const node = nodes.get(name) ?? openNode({ host, port })
    node.namedMs = clock.monotonicMs()
    nodes.set(name, node)
    return node
  }

  function openNode(place: HostPort): ClusterNode {
    const connection = createRespConnection({
      ...session,
      endpoint: place,
      backoff: newBackoff(),
      breaker: newBreaker(`Redis ${place.host}:${place.port}`),
      stats: pool,
    })
    setup.inspect(connection)
    const onRefusal = (text: string) => {
      if (text.startsWith('CLUSTERDOWN')) schedule.soon()
    }
    const node = createRedisNode({ connection, limits, onRefusal, slotOf, follow: followFrom(place) })
    const waiting = new Set<() => void>()
    connection.onHealth(serving => {
      if (serving) for (const go of waiting) go()
      else schedule.soon()
      checkHealth()
    })
    return { ...node, place, waiting, namedMs: 0 }
  }

  async function refresh(): Promise<void> {
    const slots = await findSlots()
    if (closed || slots === undefined) return
    owners.replace(slots.ranges.map(range => ({ ...range, master: nodeAt(range.master) })))
    closeOthers()
  }

  /**
   * Returns the reply of the first node that knows all slots; otherwise the reply that covers the most slots.
   */
  async function findSlots(): Promise<ClusterSlots | undefined> {
    const known = shuffled([...nodes.values()].filter(({ connection }) => connection.healthy))
    const sources = [
      ...known.map(({ place, connection }) => ({
        place,
        fetch: () => ask(connection, 'CLUSTER', 'SLOTS'),
      })),
      ...shuffled(seeds).map(place => ({
        place,
        fetch: () => askOnce({ ...session, endpoint: place }, 'CLUSTER', 'SLOTS'),
      })),
    ]
    let best: ClusterSlots | undefined
    for (const { place, fetch } of sources) {
      if (closed || best?.covered === slotCount) break
      const slots = readClusterSlots(await fetch(), place.host)
      if ('problem' in slots) askProblem = slots.problem
      else if (best === undefined || slots.covered > best.covered) best = slots
    }
    return best
  }

  function shuffled<T>(items: readonly T[]): T[] {
    const keyed = items.map(item => ({ item, key: random() }))
    return keyed.sort((a, b) => a.key - b.key).map(({ item }) => item)
  }

  function closeOthers(): void {
    const nowMs = clock.monotonicMs()
    for (const [name, node] of nodes) {
      if (owners.masters.has(node) || nowMs - node.namedMs < lingerMs) continue
      nodes.delete(name)
      void node.close()
    }
  }

  function problem(): string {
    if (closed) return closedText
    const { masters, missing } = owners
    if (masters.size === 0) return `no node of the cluster has reported the slots: ${askProblem}`
    if (missing > 0) return `${missing} slots of the cluster have no master`
    const away = [...masters].find(({ connection }) => !connection.healthy)
    return away === undefined ? '' : problemOf(away)
  }

  function checkHealth(): void {
    const next = problem() === ''
    if (next === healthy) return
    healthy = next
    for (const listener of listeners) listener(next)
  }

  /** Returns a `Follow` that handles the redirects in the replies of the node at `place`. */
  function followFrom(place: HostPort): Follow {
    return (send, of) => (items, onAnswers) => sendFollowing({ place, send, of, hops: 0 }, items, onAnswers)
  }

  function sendFollowing<Item, Answer>(
    step: Step<Item, Answer>,
    items: readonly Item[],
    onAnswers: OnAnswers<Answer>,
    asking = false,
  ): void {
    const { place, send, of, hops } = step
    send(
      items,
      (answers, missing) => {
        const parts: Again<Item, Answer>[] = []
        const redirects = hops < maxRedirects ? redirectsIn(answers, place.host) : []
        for (const { redirect, places } of redirects) {
          const node = learn(redirect)
          const next = { place: node.place, send: of(node), of, hops: hops + 1 }
          const sendThere: Send<Item, Answer> = (some, onSome) => {
            whenServing(node, () => sendFollowing(next, some, onSome, redirect.asking))
          }
          parts.push({ places, send: sendThere })
        }
        if (parts.length === 0) onAnswers(answers, missing)
        else sendAgain(items, answers, parts, all => onAnswers(all, missing))
      },
      asking,
    )
  }

  function learn(redirect: Redirect): ClusterNode {
    const node = nodeAt(redirect)
    if (!redirect.asking && owners.of(redirect.slot) !== node) {
      owners.set(redirect.slot, node)
      schedule.soon()
    }
    return node
  }

  /**
   * Waits until a new node is connected. A call that waits longer than its deadline was rejected meanwhile.
   */
  function whenServing({ connection, waiting }: ClusterNode, then: () => void): void {
    if (connection.healthy) {
      then()
      return
    }
    const go = () => {
      clearTimeout(timer)
      waiting.delete(go)
      then()
    }
    const timer = setTimeout(go, limits.deadlineMs)
    waiting.add(go)
  }

  /** Adds nothing when the owner of one of the hits is away. */
  function addToOwners(batch: readonly Hit[]): Promise<readonly number[]> {
    const targets: ClusterNode[] = []
    for (const { key } of batch) {
      const owner = owners.of(slotOf(key))
      if (owner === undefined) return Promise.reject(new CountersError(problem()))
      if (!owner.connection.usable) return Promise.reject(new CountersError(problemOf(owner)))
      targets.push(owner)
    }
    const [first] = targets
    if (first === undefined) return Promise.resolve([])
    if (targets.every(target => target === first)) return first.add(batch)
    return addSplit(
      batch,
      (_, place) => targets[place] ?? first,
      (node, part) => node.add(part),
    )
  }

  function addUnlessOver(batch: readonly Hit[]): Promise<readonly number[]> {
    const [slot, ...others] = new Set(batch.map(({ key }) => slotOf(key)))
    const owner = owners.of(slot ?? 0)
    if (owner === undefined || others.length > 0) return addInTwoSteps(addToOwners, batch)
    return owner.addUnlessOver(batch)
  }

  function add(batch: readonly Hit[]): Promise<readonly number[]> {
    if (closed) return Promise.reject(new CountersError(closedText))
    return stopWhenOver ? addUnlessOver(batch) : addToOwners(batch)
  }

  /** The keys of a call with several limits have a hash tag, so that they are in one slot. */
  async function admit(members: readonly Member[]): Promise<readonly MemberOutcome[]> {
    if (closed) throw new CountersError(closedText)
    const [slot, ...others] = new Set(members.map(({ key }) => slotOf(key)))
    if (slot === undefined) return []
    if (others.length > 0) throw new CountersError('the limits of a call are in several slots of the cluster')
    const owner = owners.of(slot)
    if (owner === undefined) throw new CountersError(problem())
    if (!owner.connection.usable) throw new CountersError(problemOf(owner))
    return await owner.admit(members)
  }

  function onHealth(listener: (healthy: boolean) => void): void {
    listeners.push(listener)
  }

  async function close(): Promise<void> {
    closed = true
    schedule.close()
    await Promise.all([...nodes.values()].map(node => node.close()))
    checkHealth()
  }

  const findObstacle = (keyPrefix: string) => findScriptObstacle(admit, keyPrefix)
  return withHealth({ add, admit, findObstacle, onHealth, close, pool }, { healthy: () => healthy, problem })
}

/** Items sent to a node, which may redirect them. */
interface Step<Item, Answer> {
  readonly place: HostPort
  readonly send: Send<Item, Answer>
  readonly of: (node: RedisNode) => Send<Item, Answer>
  /** The number of redirects so far. */
  readonly hops: number
}

function problemOf({ place, connection }: ClusterNode): string {
  return `${place.host}:${place.port}: ${connection.problem}`
}

/** Returns the answers that name another node, grouped by their text. */
function redirectsIn(
  answers: readonly unknown[],
  askedHost: string,
): readonly { readonly redirect: Redirect; readonly places: number[] }[] {
  const found = new Map<string, { readonly redirect: Redirect; readonly places: number[] }>()
  for (const [place, answer] of answers.entries()) {
    if (!(answer instanceof CountersError)) continue
    const known = found.get(answer.message)
    if (known !== undefined) {
      known.places.push(place)
      continue
    }
    const redirect = readRedirect(answer.message, askedHost)
    if (redirect !== undefined) found.set(answer.message, { redirect, places: [place] })
  }
  return [...found.values()]
}
