import { type ShareOptions, Shares } from '../../../services/ratelimit/shares/shares.ts'
import {
  applyFault,
  describeFault,
  type FaultEvent,
  generateFault,
  healAll,
  isFault,
  type Places,
  someFaults,
} from '../engine/faults.ts'
import type { Random } from '../engine/hash.ts'
import { Network } from '../engine/network.ts'
import type { SimulatedProcess, Simulation } from '../engine/simulation.ts'
import type { World } from '../engine/world.ts'
import { sharesDefects } from './shares-defects.ts'

type SharesEvent =
  | FaultEvent
  | ({ readonly atMs: number } & (
      | { readonly kind: 'demand'; readonly name: string; readonly wanted: number }
      | { readonly kind: 'capacity'; readonly capacity: number }
      | { readonly kind: 'restart'; readonly name: string; readonly downMs: number }
      | { readonly kind: 'leave'; readonly name: string; readonly awayMs: number }
    ))

/** The parts that a defect may replace: the allocator, and how members use it. */
export interface SharesParts {
  openShares(capacity: number, options: ShareOptions): Shares
  /** The end of a grant, of which the report was sent and the answer has arrived at these times. */
  endOfGrant(sentMs: number, arrivedMs: number, ttlMs: number): number
  /** Whether an answer to this report counts, if this is the number of the last one that was sent. */
  isCurrent(answered: number, lastSent: number): boolean
  /** What a pod holds: its own grant, and what its proxies may still use. */
  holdingOfPod(granted: number, outstanding: number): number
  /** How long a proxy may use its grant, if that of its pod ends after this time. */
  ttlOfProxy(leftMs: number, ttlMs: number): number
  /** The id of a member. */
  toId(name: string, life: number): string
  /** Whether a proxy that leaves stops to use its grant. */
  readonly stopsBeforeLeaving: boolean
}

const reportMs = 5_000
const ttlMs = 15_000
const firstCapacity = 1_000
const allocatorName = 'allocator'
const pods = ['pod-1', 'pod-2', 'pod-3'] as const
const proxies = pods.flatMap((pod, index) =>
  [1, 2, 3].map(number => ({ name: `proxy-${3 * index + number}`, pod })),
)
const proxyNames = proxies.map(({ name }) => name) as [string, ...string[]]
const scenarioMs = 50_000

export const sharesWorld: World<SharesEvent, SharesParts> = {
  name: 'shares',
  summary: 'an allocator, three pods and nine proxies on a lossy network, which divide a limit in two tiers',
  parts: {
    openShares: (capacity, options) => new Shares(capacity, options),
    endOfGrant: (sentMs, _, ttl) => sentMs + ttl,
    isCurrent: (answered, lastSent) => answered === lastSent,
    holdingOfPod: (granted, outstanding) => Math.max(granted, outstanding),
    ttlOfProxy: (leftMs, ttl) => Math.min(leftMs, ttl),
    toId: (name, life) => `${name} ${life}`,
    stopsBeforeLeaving: true,
  },
  defects: sharesDefects,
  generate,
  describe,
  open: openSharesWorld,
}

function generate(random: Random): readonly SharesEvent[] {
  const choices = {
    kinds: { ...random.some(kinds), demand: kinds.demand },
    places: someFaults(random, places),
  }
  const events = random.times(10, 60, scenarioMs).map(atMs => generateEvent(random, choices, atMs))
  return random.chance(0.3) ? [...repeatAll(random), ...events] : events
}

/** All links repeat messages, up to some seconds later: a late report matters only if much has changed meanwhile. */
function repeatAll(random: Random): readonly SharesEvent[] {
  const [lossShare, repeatShare] = [random.pick([0, 0.2]), random.pick([0.5, 0.9])]
  return places.links.map(pair => {
    return { atMs: 0, forMs: scenarioMs, kind: 'lossy link', pair, lossShare, repeatShare }
  })
}

/** How often each kind of event is chosen. */
const kinds = { demand: 10, capacity: 1, restart: 3, leave: 2, fault: 8 }

interface Choices {
  readonly kinds: Partial<typeof kinds>
  readonly places: Places
}

function generateEvent(random: Random, choices: Choices, atMs: number): SharesEvent {
  const kind = random.weighted(choices.kinds)
  switch (kind) {
    case 'demand':
      return { atMs, kind, name: random.pick(proxyNames), wanted: random.pick([0, 10, 100, 400, 2_000]) }
    case 'capacity':
      return { atMs, kind, capacity: random.pick([200, 700, 1_500]) }
    case 'restart':
      return {
        atMs,
        kind,
        name: random.pick([allocatorName, ...pods, ...proxyNames]),
        downMs: random.integer(1, 4_000),
      }
    case 'leave':
      return { atMs, kind, name: random.pick(proxyNames), awayMs: random.integer(100, 8_000) }
    case 'fault':
      return generateFault(random, atMs, choices.places)
  }
}

const podLinks = pods.map(pod => [pod, allocatorName] as const)
/** A fault of the upper tier is as likely as one of the lower. */
const links = [
  ...podLinks,
  ...podLinks,
  ...podLinks,
  ...proxies.map(({ name, pod }) => [name, pod] as const),
] as unknown as [readonly [string, string], ...(readonly [string, string])[]]
const places = {
  names: [allocatorName, ...pods, ...proxyNames] as const,
  links,
  weights: { pause: 2, cut: 2, 'slow link': 3, 'lossy link': 8 },
}

function describe(event: SharesEvent): { readonly who: string; readonly what: string } {
  if (isFault(event)) return describeFault(event)
  switch (event.kind) {
    case 'demand':
      return { who: event.name, what: `wants ${event.wanted}` }
    case 'capacity':
      return { who: 'user', what: `sets the limit to ${event.capacity}` }
    case 'restart':
      return { who: event.name, what: `is killed, and starts again after ${event.downMs} ms` }
    case 'leave':
      return { who: event.name, what: `leaves, and comes back after ${event.awayMs} ms` }
  }
}

/** What a member may use, until a time. */
interface Grant {
  readonly amount: number
  readonly sentMs: number
  readonly endMs: number
}

const noGrant: Grant = { amount: 0, sentMs: 0, endMs: 0 }

interface Report {
  readonly id: string
  readonly wanted: number
  readonly held: number
  /** The last grant. An allocator that learns believes no more than that. */
  readonly granted: number
  readonly sequence: number
  readonly weight: number
}

/** What an allocator sends: an answer to a report, or a later and better grant that nobody asked for. */
interface Answer {
  readonly sequence: number
  /** Grows with each message after the same report. */
  readonly revision: number
  readonly amount: number
  readonly ttlMs: number
}

interface Server {
  take(report: Report, answer: (answer: Answer) => void): void
  leave(id: string): void
}

function openSharesWorld(simulation: Simulation, parts: SharesParts) {
  const network = new Network(simulation)
  const servers = new Map<string, { readonly process: SimulatedProcess; readonly server: Server }>()
  /** What each running proxy may use. */
  const grants = new Map<string, () => Grant>()
  const wanted = new Map<string, number>(proxyNames.map(name => [name, 100]))
  const leaving = new Map<string, () => void>()
  /** The ids of members whose process has ended. */
  const ended = new Set<string>()
  const limits = [{ sinceMs: 0, capacity: firstCapacity }]
  let capacity = firstCapacity
  let hasStarted = false

  /** A server of reports: it answers, and sends better grants to members without being asked. */
  function serve(process: SimulatedProcess, shares: Shares, ttl: () => number): void {
    const members = new Map<string, { sequence: number; revision: number; send: (answer: Answer) => void }>()
    const server: Server = {
      take({ id, ...report }, send) {
        const time = ttl()
        const amount = shares.report(id, report, process.clock.monotonicMs(), time)
        const before = members.get(id)
        // A report that has come twice is answered once: its time to live would be counted from the second time.
        if (before !== undefined && report.sequence <= before.sequence) return
        const member = { sequence: report.sequence, revision: (before?.revision ?? 0) + 1, send }
        members.set(id, member)
        send({ ...member, amount, ttlMs: time })
      },
      leave(id) {
        shares.leave(id)
        members.delete(id)
      },
    }
    servers.set(process.name, { process, server })
    process.onEnd(() => {
      if (servers.get(process.name)?.process === process) servers.delete(process.name)
    })
    setInterval(() => {
      for (const [id, member] of members) {
        // A service knows the end of a stream, and could tell nobody.
        if (ended.has(id)) continue
        const time = ttl()
        const amount = shares.revise(id, process.clock.monotonicMs(), time)
        if (amount === undefined) continue
        member.revision += 1
        member.send({ ...member, amount, ttlMs: time })
      }
    }, 1_000)
  }

  /** A member: it reports regularly, and may use its last grant until that ends. */
  function join(
    process: SimulatedProcess,
    to: string,
    claim: () => Pick<Report, 'wanted' | 'held' | 'granted' | 'weight'>,
    onGrant: (grant: Grant) => void,
  ) {
    const id = parts.toId(process.name, process.life)
    ended.delete(id)
    process.onEnd(() => ended.add(id))
    let sequence = 0
    let revision = 0
    let sentMs = 0
    const send = (work: (server: Server) => void) => {
      network.send(process.name, to, () => {
        const found = servers.get(to)
        found?.process.soon(() => work(found.server))
      })
    }
    const receive = (answer: Answer) => {
      if (!parts.isCurrent(answer.sequence, sequence) || answer.revision <= revision) return
      revision = answer.revision
      const endMs = parts.endOfGrant(sentMs, process.clock.monotonicMs(), answer.ttlMs)
      onGrant({ amount: answer.amount, sentMs, endMs })
    }
    const report = () => {
      sequence += 1
      sentMs = process.clock.monotonicMs()
      revision = 0
      const sent = { id, sequence, ...claim() }
      send(server => {
        server.take(sent, answer => network.send(to, process.name, () => process.soon(() => receive(answer))))
      })
    }
    process.after(simulation.fraction('first report', process.name, process.life) * 300, () => {
      report()
      setInterval(report, reportMs)
    })
    return { leave: () => send(server => server.leave(id)) }
  }

  function startAllocator(): void {
    simulation.start(allocatorName, process => {
      const learnUntilMs = hasStarted ? process.clock.monotonicMs() + ttlMs : 0
      hasStarted = true
      const shares = parts.openShares(capacity, { learnUntilMs })
      const note = () => limits.push({ sinceMs: simulation.nowMs, capacity: shares.capacity })
      note()
      const read = () => {
        if (shares.capacity === capacity) return
        shares.capacity = capacity
        note()
      }
      setInterval(read, 500)
      serve(process, shares, () => ttlMs)
    })
  }

  function startPod(name: string): void {
    simulation.start(name, process => {
      const { clock } = process
      const shares = parts.openShares(0, {
        learnUntilMs: clock.monotonicMs() + (process.life > 1 ? ttlMs : 0),
      })
      let own = noGrant
      const usable = () => (own.endMs > clock.monotonicMs() ? own.amount : 0)
      const update = () => {
        shares.capacity = usable()
      }
      const claim = () => {
        update()
        const members = [...shares.membersAt(clock.monotonicMs()).values()]
        const sum = members.reduce((total, member) => total + member.wanted, 0)
        const held = parts.holdingOfPod(usable(), shares.outstandingAt(clock.monotonicMs()))
        return { wanted: sum, held, granted: usable(), weight: Math.max(1, members.length) }
      }
      join(process, allocatorName, claim, grant => {
        own = grant
        update()
      })
      serve(process, shares, () => {
        update()
        return Math.max(0, parts.ttlOfProxy(own.endMs - clock.monotonicMs(), ttlMs))
      })
    })
  }

  function startProxy(name: string): void {
    const { pod } = proxies.find(proxy => proxy.name === name) ?? { pod: pods[0] }
    simulation.start(name, process => {
      const { clock } = process
      let own = noGrant
      grants.set(name, () => own)
      const held = () => (own.endMs > clock.monotonicMs() ? own.amount : 0)
      const member = join(
        process,
        pod,
        () => ({ wanted: wanted.get(name) ?? 0, held: held(), granted: held(), weight: 1 }),
        grant => {
          if (grant.amount !== own.amount) process.note(`may use ${grant.amount}`)
          own = grant
        },
      )
      leaving.set(name, () => {
        if (parts.stopsBeforeLeaving) own = noGrant
        member.leave()
        if (parts.stopsBeforeLeaving) return
        const last = own
        grants.set(`${name} after it has left`, () => last)
      })
      process.onEnd(() => grants.delete(name))
    })
  }

  function start(name: string): void {
    if (name === allocatorName) startAllocator()
    else if (name.startsWith('pod')) startPod(name)
    else startProxy(name)
  }

  /**
   * The sum of what all proxies may use, and each by its own time to live. When the limit falls, grants fall
   * first, in each tier within its time to live.
   */
  function check(): void {
    const { nowMs } = simulation
    let sum = 0
    for (const [name, read] of grants) {
      const { amount, endMs, sentMs } = read()
      if (endMs <= nowMs) continue
      if (nowMs >= sentMs + ttlMs)
        simulation.fail(name, 'no grant outlives its time to live', `it uses ${amount}`)
      sum += amount
    }
    const bound = Math.max(
      ...limits
        .filter((_, index) => nowMs - (limits[index + 1]?.sinceMs ?? nowMs) <= 2 * ttlMs)
        .map(limit => limit.capacity),
    )
    if (sum > bound)
      simulation.fail('proxies', 'the grants never exceed the limit', `${sum} of ${bound} may be used`)
  }

  function apply(event: SharesEvent): void {
    if (isFault(event)) {
      applyFault(simulation, network, event)
      return
    }
    switch (event.kind) {
      case 'demand':
        wanted.set(event.name, event.wanted)
        break
      case 'capacity':
        capacity = event.capacity
        break
      case 'restart':
        simulation.kill(event.name)
        simulation.startLater(event.name, event.downMs, start)
        break
      case 'leave': {
        const process = simulation.find(event.name)
        process?.soon(() => {
          leaving.get(event.name)?.()
          simulation.after(0, () => {
            if (simulation.find(event.name) === process) simulation.kill(event.name)
            simulation.startLater(event.name, event.awayMs, start)
          })
        })
      }
    }
  }

  function heal(): void {
    healAll(simulation, network, places.names)
    for (const name of places.names) if (simulation.find(name) === undefined) start(name)
  }

  /** Each proxy has what it wants, or at least its equal part, and a scarce limit is used. */
  function findUnsettled(): string | undefined {
    const asked = proxyNames.map(name => ({ name, wants: wanted.get(name) ?? 0, has: amountOf(name) }))
    const total = asked.reduce((sum, { wants }) => sum + wants, 0)
    const given = asked.reduce((sum, { has }) => sum + has, 0)
    const poor = asked.find(({ wants, has }) => has < 0.9 * Math.min(wants, capacity / proxyNames.length) - 2)
    if (poor) return `${poor.name} wants ${poor.wants}, and may use ${poor.has}`
    if (total >= capacity && given < 0.95 * capacity - 10)
      return `${given} of ${capacity} are used, and ${total} are wanted`
    return undefined
  }

  function amountOf(name: string): number {
    const { amount, endMs } = grants.get(name)?.() ?? noGrant
    return endMs > simulation.nowMs ? amount : 0
  }

  for (const name of places.names) start(name)
  simulation.onStep(check)
  return { apply, heal, findUnsettled, settleMs: () => 90_000 }
}
