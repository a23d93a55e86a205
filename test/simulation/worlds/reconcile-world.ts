import { setTimeout as pauseFor } from 'node:timers/promises'
import { silentLog } from '@tollway/chassis/log/log.ts'
import type { ClientTls } from '@tollway/grpc/client/client-tls.ts'
import type { KubeClient } from '../../../operator/environments/kubernetes/api/client.ts'
import type { KubeObject } from '../../../operator/environments/kubernetes/api/kube-object.ts'
import { openClusterController } from '../../../operator/environments/kubernetes/controller.ts'
import { Leadership } from '../../../operator/environments/kubernetes/leadership.ts'
import {
  readyCondition,
  type StoredStatus,
} from '../../../operator/environments/kubernetes/status/stored-resource.ts'
import { rateLimitConfigs } from '../../../operator/kinds/rate-limit-config/rate-limit-config.ts'
import { LeaderConnection } from '../../../operator/leader/leader-connection.ts'
import { leaderPath } from '../../../operator/leader/leader-service.ts'
import { Peers } from '../../../operator/leader/peers.ts'
import { reportAcknowledgements } from '../../../operator/leader/report-to-leader.ts'
import { encodedCodec } from '../../../operator/pods/session-table.ts'
import { Feed } from '../../../operator/xds/feed.ts'
import type { Snapshot } from '../../../operator/xds/snapshot.ts'
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
import { apiName, SimulatedApiServer } from './api-server.ts'
import { describeActive, podParts, type RateLimitPod, runRateLimitPod } from './rate-limit-pod.ts'
import { reconcileDefects } from './reconcile-defects.ts'

type Form = 'valid' | 'invalid' | 'shared'

type ReconcileEvent =
  | FaultEvent
  | ({ readonly atMs: number } & (
      | { readonly kind: 'edit'; readonly edit: number; readonly name: string; readonly form: Form }
      | {
          readonly kind: 'recreate'
          readonly edit: number
          readonly name: string
          readonly form: Form
          readonly afterMs: number
        }
      | { readonly kind: 'delete' | 'damage status'; readonly name: string }
      | { readonly kind: 'kill' | 'replace'; readonly name: string; readonly downMs: number }
      | {
          readonly kind: 'end watches'
          readonly name: string
          readonly how: 'orderly' | 'expired' | 'broken'
        }
      | { readonly kind: 'lose events' | 'repeat events'; readonly name: string; readonly count: number }
      | { readonly kind: 'fail calls'; readonly name: string; readonly share: number; readonly forMs: number }
      | { readonly kind: 'stale lists'; readonly name: string; readonly byMs: number; readonly forMs: number }
      | { readonly kind: 'set clock'; readonly name: string; readonly byMs: number }
      | { readonly kind: 'compact' }
    ))

/** The parts of an operator that a defect may replace. */
export interface ReconcileParts {
  /** Returns the client of an operator. */
  connect(client: KubeClient, process: SimulatedProcess): KubeClient
  /** Returns whether an operator may write. */
  mayWrite(leadership: Leadership, process: SimulatedProcess): boolean
  /** Called with the function that compares all statuses, when an operator has become the leader. */
  onStarted(recheckAll: () => void): void
  /** Starts to report the acknowledgements of an operator to the leader. */
  report: typeof reportAcknowledgements
  /** Returns the peers of an operator for its feed. */
  openPeers(options: ConstructorParameters<typeof Peers>[0]): Peers
  /** Publishes a snapshot. */
  publish(feed: Feed, snapshot: Snapshot): void
}

const kind = rateLimitConfigs()
const { plural } = kind.definition
const operators = ['operator-1', 'operator-2'] as const
const addresses: Readonly<Record<string, string>> = { 'operator-1': '10.0.0.1', 'operator-2': '10.0.0.2' }
const feedPort = 18_000
const pods = [{ name: 'pod-1' }, { name: 'pod-2' }] as const
/** The first resource is always there and valid, so that no snapshot may be empty. */
const [firstName, ...otherNames] = ['r1', 'r2', 'r3', 'r4'] as const
/** The last resource is of another namespace, for which the domain of a deleted resource is not free at once. */
const toKey = (name: string) => ({ namespace: name === 'r4' ? 'bank' : 'shop', name })
const scenarioMs = 40_000
/** A slow operator that has seen that it leads writes within this time. Nobody else leads for 2 s. */
const begunMs = 1_000
const installation = {
  name: 'tollway',
  namespace: 'tollway',
  revision: '1',
  owner: { apiVersion: 'v1', kind: 'ConfigMap', name: 'tollway-operator', uid: 'uid-of-installation' },
}
const config = {
  name: installation.name,
  feedPort,
  lease: { durationSeconds: 8, renewDeadlineSeconds: 6, retrySeconds: 3 },
}

export const reconcileWorld: World<ReconcileEvent, ReconcileParts> = {
  name: 'reconcile',
  summary:
    'an API server, two operators with a Lease and two rate limit pods: reflector, reconciler, status writer, last good versions and reports to the leader',
  parts: {
    connect: client => client,
    mayWrite: leadership => leadership.mayWrite(),
    onStarted: recheckAll => recheckAll(),
    report: reportAcknowledgements,
    openPeers: options => new Peers(options),
    publish: (feed, snapshot) => feed.publish(snapshot),
  },
  defects: reconcileDefects,
  generate,
  describe,
  open: openReconcileWorld,
}

function generate(random: Random): readonly ReconcileEvent[] {
  const choices = { kinds: { ...random.some(kinds), edit: kinds.edit }, places: someFaults(random, places) }
  return random.times(6, 45, scenarioMs).map((atMs, index) => generateEvent(random, choices, atMs, index + 1))
}

/** How often each kind of event is chosen. */
const kinds = {
  edit: 16,
  delete: 2,
  recreate: 3,
  'damage status': 2,
  kill: 2,
  replace: 2,
  'end watches': 3,
  'lose events': 0.3,
  'repeat events': 1,
  'fail calls': 2,
  'stale lists': 1,
  'set clock': 1,
  compact: 1,
  fault: 10,
}

interface Choices {
  readonly kinds: Partial<typeof kinds>
  readonly places: Places
}

function generateEvent(random: Random, choices: Choices, atMs: number, edit: number): ReconcileEvent {
  const name = random.pick(operators)
  const forMs = Math.round(10 ** (2.5 + 1.7 * random.next()))
  const kind = random.weighted(choices.kinds)
  switch (kind) {
    case 'edit': {
      const resource = random.pick([firstName, ...otherNames])
      const form = resource === firstName ? 'valid' : random.weighted({ valid: 5, invalid: 3, shared: 3 })
      return { atMs, kind, edit, name: resource, form }
    }
    case 'recreate': {
      const form = random.weighted({ valid: 1, invalid: 1, shared: 4 })
      return { atMs, kind, edit, name: random.pick(otherNames), form, afterMs: random.integer(1, 3_000) }
    }
    case 'delete':
      return { atMs, kind, name: random.pick(otherNames) }
    case 'damage status':
      return { atMs, kind, name: random.pick([firstName, ...otherNames]) }
    case 'kill':
    case 'replace':
      return { atMs, kind, name, downMs: random.integer(10, 5_000) }
    case 'end watches':
      return { atMs, kind, name, how: random.pick(['orderly', 'expired', 'broken']) }
    case 'lose events':
    case 'repeat events':
      return { atMs, kind, name, count: random.integer(1, 4) }
    case 'fail calls':
      return { atMs, kind, name, share: random.pick([0.3, 0.7, 1]), forMs }
    case 'stale lists':
      return { atMs, kind, name, byMs: random.integer(200, 4_000), forMs }
    case 'set clock':
      return { atMs, kind, name, byMs: random.pick([-3_600_000, -5_000, 5_000, 3_600_000]) }
    case 'compact':
      return { atMs, kind }
    case 'fault':
      return generateFault(random, atMs, choices.places)
  }
}

const places = {
  names: [...operators, ...operators, 'pod-1', 'pod-2'] as const,
  links: [
    ['operator-1', apiName],
    ['operator-2', apiName],
    ['operator-1', apiName],
    ['operator-2', apiName],
    ['operator-1', 'operator-2'],
    ['pod-1', 'operator-1'],
    ['pod-2', 'operator-2'],
  ] as const,
  weights: { pause: 3, cut: 3, reset: 1, 'slow link': 2, 'slow process': 2, 'lossy link': 3 },
} satisfies Parameters<typeof generateFault>[2]

function describe(event: ReconcileEvent): { readonly who: string; readonly what: string } {
  if (isFault(event)) return describeFault(event)
  switch (event.kind) {
    case 'edit':
      return { who: 'user', what: `writes ${event.name}, edit ${event.edit}, ${event.form}` }
    case 'recreate': {
      const after = `and writes it again after ${event.afterMs} ms, edit ${event.edit}, ${event.form}`
      return { who: 'user', what: `deletes ${event.name}, ${after}` }
    }
    case 'delete':
      return { who: 'user', what: `deletes ${event.name}` }
    case 'damage status':
      return { who: 'user', what: `removes the conditions of ${event.name}` }
    case 'kill':
      return { who: event.name, what: `is killed, and starts again after ${event.downMs} ms` }
    case 'replace':
      return { who: event.name, what: `gets SIGTERM, and is started again ${event.downMs} ms after its end` }
    case 'end watches':
      return { who: event.name, what: `has its watches ended: ${event.how}` }
    case 'lose events':
      return { who: event.name, what: `does not get its next ${event.count} events` }
    case 'repeat events':
      return { who: event.name, what: `gets its last ${event.count} events again` }
    case 'fail calls':
      return { who: event.name, what: `has ${100 * event.share} % of its calls fail for ${event.forMs} ms` }
    case 'stale lists':
      return { who: event.name, what: `gets lists that are ${event.byMs} ms old for ${event.forMs} ms` }
    case 'set clock':
      return { who: event.name, what: `has its wall clock set by ${event.byMs} ms` }
    case 'compact':
      return { who: apiName, what: 'forgets all events so far' }
  }
}

function toSpec(name: string, edit: number, form: Form) {
  const unit = form === 'invalid' ? 'fortnight' : 'minute'
  const rateLimit = { unit, requestsPerUnit: edit }
  const domain = form === 'shared' ? 'shared' : name
  return {
    domain,
    descriptors: [
      { key: 'user', rateLimit },
      { key: 'path', rateLimit },
    ],
  }
}

interface RunningOperator {
  readonly process: SimulatedProcess
  readonly leadership: Leadership
  readonly feed: Feed
  stop(): Promise<void>
}

/** A connection to the leader over the network of the simulation. */
class SimulatedLeaderConnection extends LeaderConnection {
  readonly #open: (address: string) => ReturnType<Network['client']>
  #address: string | undefined
  #clients: ReturnType<LeaderConnection['current']>
  #changed = new AbortController()

  constructor(
    options: ConstructorParameters<typeof LeaderConnection>[0],
    open: (address: string) => ReturnType<Network['client']>,
  ) {
    super(options)
    this.#open = open
  }

  override setLeader(address: string | undefined): void {
    if (address !== this.#address) {
      this.#address = address
      this.#changed.abort()
      this.#changed = new AbortController()
      this.#clients = undefined
    }
    super.setLeader(address)
  }

  override current(): ReturnType<LeaderConnection['current']> {
    if (this.#address === undefined) return undefined
    const { signal } = this.#changed
    this.#clients ??= { client: this.#open(this.#address), sessionClient: this.#open(this.#address), signal }
    return this.#clients
  }
}

function openReconcileWorld(simulation: Simulation, parts: ReconcileParts) {
  const network = new Network(simulation)
  const api = new SimulatedApiServer(simulation, network)
  const running = new Map<string, RunningOperator>()
  const podsByName = new Map<string, RateLimitPod>()
  /** When the last good content of each resource was stored first, by uid. */
  const storedSinceMs = new Map<string, number>()
  const createdMs = new Map<string, number>()
  const onceShared = new Set<string>()
  /** When each operator has led last. */
  const lastLedMs = new Map<string, number>()

  api.onChange = (changed, { metadata, ...object }) => {
    const { uid = '' } = metadata
    if (changed === plural && !createdMs.has(uid)) createdMs.set(uid, simulation.nowMs)
    if (changed === plural && (object['spec'] as { domain?: string }).domain === 'shared') onceShared.add(uid)
    if (changed !== 'configmaps') return
    for (const key of Object.keys((object['binaryData'] ?? {}) as object)) {
      const stored = key.split('.')[0] ?? ''
      if (!storedSinceMs.has(stored)) storedSinceMs.set(stored, simulation.nowMs)
    }
  }

  function startOperator(name: string): void {
    running.delete(name)
    simulation.start(name, process => {
      const operator = openOperator(process)
      running.set(name, operator)
      process.onEnd(() => {
        if (running.get(name) === operator) running.delete(name)
      })
    })
  }

  /** Puts an operator together as `operator/environments/kubernetes/start.ts` does, with one kind. */
  function openOperator(process: SimulatedProcess): RunningOperator {
    const { name } = process
    const startedMs = simulation.nowMs
    const ip = addresses[name] ?? ''
    const client = watchWrites(parts.connect(api.client(process), process), process)
    const leadership = new Leadership({ client, installation, config, pod: { name, ip }, log: silentLog })
    const mayWrite = () => parts.mayWrite(leadership, process)
    let ids = 0
    const newId = () => `${name}.${process.life}.${++ids}`
    const peers = parts.openPeers({ ids: newId, clock: process.clock, log: silentLog })
    const leader = new SimulatedLeaderConnection(
      {
        tls: undefined as unknown as ClientTls,
        log: silentLog,
        random: () => process.random(),
        onUnreachable: () => leadership.readLeaseNow(),
      },
      address =>
        network.client(
          process,
          () => operators.find(other => address.startsWith(`${addresses[other]}:`)),
          6_000,
        ),
    )
    const feed = new Feed({
      typeUrls: [kind.typeUrl],
      ids: newId,
      clock: process.clock,
      log: silentLog,
      remotePeers: peers,
    })
    const published = feed.publish.bind(feed)
    feed.publish = snapshot => {
      checkSnapshot(process, startedMs, snapshot)
      parts.publish(Object.assign(Object.create(feed), { publish: published }) as Feed, snapshot)
    }
    const controller = openClusterController(kind, {
      client,
      watchNamespaces: [],
      feed,
      infrastructure: {
        observe: workload => (workload === kind.workload ? replicas : []),
        obstacle: () => undefined,
      },
      whySwitchedOff: () => undefined,
      backends: { get: () => undefined },
      mayWrite,
      metrics: { statusWritten() {}, propagated() {}, reconciled() {} },
      installation,
      events: { record() {} },
      log: silentLog,
    })
    const reporting = parts.report(leader, { feed, reporter: leadership.identity, clock: process.clock })
    feed.onChange(controller.trigger)
    leadership.start({
      onStarted() {
        process.note('leads')
        parts.onStarted(controller.statuses.recheckAll)
      },
      async onStopped() {
        process.note('leads no more')
      },
      onRival: address => leader.setLeader(address),
    })
    const acknowledge = {
      kind: 'bidi' as const,
      path: leaderPath('Acknowledge'),
      ...encodedCodec,
      handle: peers.receive.bind(peers),
    }
    void controller.start().then(() => network.serve(process, name, [...feed.methods, acknowledge]))
    return {
      process,
      leadership,
      feed,
      async stop() {
        await Promise.race([controller.stop(), pauseFor(2_000)])
        await leadership.stop()
        peers.close()
        feed.close()
        leader.stop()
        await reporting()
      },
    }
  }

  /** Only the one operator that leads writes statuses and last good contents. */
  function watchWrites(client: KubeClient, process: SimulatedProcess): KubeClient {
    function check(what: string): void {
      if (findLeaders().length > 1)
        simulation.fail(process.name, oneLeader, `${what} while both operators lead`)
      const ledMs = lastLedMs.get(process.name) ?? Number.NEGATIVE_INFINITY
      if (simulation.nowMs > ledMs + begunMs)
        simulation.fail(process.name, oneWriter, `${what} without the Lease`)
    }
    return {
      ...client,
      applyStatus(resource, object, options) {
        check(`writes the status of ${object.metadata.name}`)
        process.note(
          `writes the status of ${object.metadata.name}: ${describeStatus(object['status'] as StoredStatus)}`,
        )
        return client.applyStatus(resource, object, options)
      },
      create(resource, object, options) {
        if (resource.plural === 'configmaps') check(`creates ${object.metadata.name}`)
        return client.create(resource, object, options)
      },
      replace(resource, object, options) {
        if (resource.plural === 'configmaps') check(`writes ${object.metadata.name}`)
        return client.replace(resource, object, options)
      },
    }
  }

  function isLeader({ process, leadership }: RunningOperator): boolean {
    return process.look(() => leadership.mayWrite())
  }

  function findLeaders(): readonly RunningOperator[] {
    const leaders = [...running.values()].filter(isLeader)
    for (const { process } of leaders) lastLedMs.set(process.name, simulation.nowMs)
    return leaders
  }

  function checkLeaders(): void {
    const leaders = findLeaders()
    if (leaders.length > 1) {
      simulation.fail('world', oneLeader, leaders.map(({ process }) => process.name).join(' and '))
    }
  }

  /** The first resource is always there, and a resource with a stored last good version stays in the feed. */
  function checkSnapshot({ name, life }: SimulatedProcess, startedMs: number, { resources }: Snapshot): void {
    simulation.note(
      name,
      `publishes ${[...resources.keys()].map(key => key.replace(/^.*\//, '')).join(' ') || 'nothing'}`,
    )
    if (resources.size === 0) simulation.fail(name, neverEmpty, `life ${life}`)
    for (const { metadata } of api.list(plural)) {
      const { uid = '' } = metadata
      const isOld = simulation.nowMs - (createdMs.get(uid) ?? simulation.nowMs) > 6_000
      // An operator reads the stored contents when it starts. What is stored later it reads when the leader says so.
      const isRead = (storedSinceMs.get(uid) ?? Number.POSITIVE_INFINITY) < startedMs
      if (!isOld || onceShared.has(uid) || !isRead) continue
      if (resources.has(`${metadata.namespace}/${metadata.name}`)) continue
      simulation.fail(name, lastGoodStays, `the snapshot lacks ${metadata.name}, which was in force`)
    }
  }

  function checkPod(pod: RateLimitPod): void {
    for (const [domain, numbers] of pod.active) {
      if (numbers.length === 2 && numbers[0] === numbers[1]) continue
      simulation.fail(pod.kind.name, 'a configuration is never mixed', `${domain} has ${numbers.join(', ')}`)
    }
    if (pod.active.size === 0) simulation.fail(pod.kind.name, neverEmpty, 'the pod has no rules')
  }

  function edit(name: string, number: number, form: Form): void {
    const before = api.find(plural, toKey(name))
    const object = before ?? { metadata: toKey(name) }
    api.put(plural, { ...object, spec: toSpec(name, number, form) })
  }

  function apply(event: ReconcileEvent): void {
    if (isFault(event)) {
      applyFault(simulation, network, event)
      simulation.after(event.forMs, () => api.flush())
      return
    }
    switch (event.kind) {
      case 'edit':
        edit(event.name, event.edit, event.form)
        break
      case 'recreate':
        api.remove(plural, toKey(event.name))
        simulation.after(event.afterMs, () => edit(event.name, event.edit, event.form))
        break
      case 'delete':
        api.remove(plural, toKey(event.name))
        break
      case 'damage status': {
        const found = api.find(plural, toKey(event.name))
        if (found) api.put(plural, { ...found, status: {} })
        break
      }
      case 'kill':
        simulation.kill(event.name)
        simulation.startLater(event.name, event.downMs, startOperator)
        break
      case 'replace': {
        const operator = running.get(event.name)
        if (operator === undefined) break
        operator.process.soon(async () => {
          await operator.stop()
          if (simulation.find(event.name) !== operator.process) return
          simulation.after(0, () => {
            simulation.kill(event.name)
            simulation.startLater(event.name, event.downMs, startOperator)
          })
        })
        break
      }
      case 'end watches':
        api.endWatches(event.name, event.how)
        break
      case 'lose events':
        api.loseEvents(event.name, event.count)
        break
      case 'repeat events':
        api.repeatEvents(event.name, event.count)
        break
      case 'fail calls':
        api.errorShares.set(event.name, event.share)
        simulation.after(event.forMs, () => api.errorShares.delete(event.name))
        break
      case 'stale lists':
        api.staleMs.set(event.name, event.byMs)
        simulation.after(event.forMs, () => api.staleMs.delete(event.name))
        break
      case 'set clock': {
        const process = simulation.find(event.name)
        if (process) process.wallOffsetMs += event.byMs
        break
      }
      case 'compact':
        api.compact()
    }
  }

  function heal(): void {
    healAll(simulation, network, [...operators, ...pods.map(({ name }) => name)])
    api.errorShares.clear()
    api.staleMs.clear()
    for (const name of operators) api.loseEvents(name, 0)
    api.flush()
    for (const name of operators) if (simulation.find(name) === undefined) startOperator(name)
  }

  function findUnsettled(): string | undefined {
    if ([...running.values()].filter(isLeader).length !== 1) return 'no operator leads'
    const resources = api.list(plural)
    const winners = resources.filter(resource => isShared(resource) && statusOf(resource).ready === 'True')
    // An invalid resource keeps the domain of its last good version.
    const mayBeKept = resources.some(
      resource => !isValid(resource) && onceShared.has(resource.metadata.uid ?? ''),
    )
    if (winners.length > 1 || (resources.some(isShared) && winners.length === 0 && !mayBeKept)) {
      return `the domain shared belongs to ${winners.map(({ metadata }) => metadata.name).join(' and ') || 'nobody'}`
    }
    const expected = new Map<string, number>()
    for (const resource of resources) {
      const wrong = findWrongStatus(resource)
      if (wrong !== undefined) return `${resource.metadata.name}: ${wrong}`
      const { domain, descriptors } = resource['spec'] as ReturnType<typeof toSpec>
      if (statusOf(resource).ready === 'True')
        expected.set(domain, descriptors[0]?.rateLimit.requestsPerUnit ?? 0)
    }
    for (const { metadata } of resources) {
      const { namespace, name, uid = '' } = metadata
      if (onceShared.has(uid) || !storedSinceMs.has(uid)) continue
      for (const [operator, { feed }] of running) {
        if (!feed.published(kind.typeUrl)?.resources.has(`${namespace}/${name}`))
          return `the feed of ${operator} lacks ${name}`
      }
    }
    const [one, other] = [...running.values()].map(({ feed }) => feed.published(kind.typeUrl))
    if (one?.version !== other?.version) return `the operators publish ${describeSnapshots(one, other)}`
    for (const [name, { active }] of podsByName) {
      for (const [domain, number] of expected) {
        if (active.get(domain)?.[0] !== number)
          return `${name} enforces ${describeActive(active)}, not ${domain}:${number}`
      }
      const names = new Set(resources.map(({ metadata }) => metadata.name))
      const gone = [...active.keys()].find(domain => domain !== 'shared' && !names.has(domain))
      if (gone !== undefined) return `${name} still enforces ${gone}`
    }
    return undefined
  }

  for (const name of [firstName, ...otherNames]) edit(name, 100, 'valid')
  for (const name of operators) startOperator(name)
  for (const [index, pod] of pods.entries()) {
    let connections = 0
    simulation.start(pod.name, process => {
      const resolve = () => {
        connections += 1
        const serving = operators.filter(name => network.serves(name))
        return serving[(index + connections) % Math.max(1, serving.length)]
      }
      podsByName.set(
        pod.name,
        runRateLimitPod(process, pod, { network, parts: podParts, resolve, onLoad: checkPod }),
      )
    })
  }
  simulation.onStep(checkLeaders)
  return {
    apply,
    heal,
    findUnsettled,
    settleMs: (events: readonly ReconcileEvent[]) =>
      // A lost event is found by the next list.
      events.some(event => event.kind === 'lose events') ? 1_400_000 : 120_000,
  }
}

const replicas = pods.map(({ name }) => ({
  name,
  uid: name,
  ready: true,
  reason: '',
  restarts: 0,
  addresses: {},
}))

const oneLeader = 'at most one operator leads'
const oneWriter = 'only the leader writes'
const neverEmpty = 'an empty snapshot is never sent'
const lastGoodStays = 'a last good version stays in force'

/** Returns the resources that differ between two snapshots. */
function describeSnapshots(...snapshots: readonly (Snapshot | undefined)[]): string {
  const names = new Set(snapshots.flatMap(snapshot => [...(snapshot?.resources.keys() ?? [])]))
  const hashes = (name: string) => snapshots.map(snapshot => snapshot?.resources.get(name)?.hash ?? 'none')
  const differing = [...names].filter(name => new Set(hashes(name)).size > 1)
  return differing
    .map(
      name =>
        `${name} as ${hashes(name)
          .map(hash => hash.slice(0, 8))
          .join(' and ')}`,
    )
    .join(', ')
}

function isShared(resource: KubeObject): boolean {
  return (resource['spec'] as { domain: string }).domain === 'shared' && isValid(resource)
}

function isValid(resource: KubeObject): boolean {
  const { descriptors } = resource['spec'] as ReturnType<typeof toSpec>
  return descriptors[0]?.rateLimit.unit === 'minute'
}

function statusOf(resource: KubeObject) {
  const status = (resource['status'] ?? {}) as StoredStatus
  const ready = readyCondition(status)
  return { ready: ready?.status, reason: ready?.reason, enforced: status.enforced, status }
}

/** Returns how the status of a resource differs from what it has to be in the end. */
function findWrongStatus(resource: KubeObject): string | undefined {
  const { ready, reason, enforced, status } = statusOf(resource)
  const { generation } = resource.metadata
  if (status.observedGeneration !== generation) {
    return `the status is of generation ${status.observedGeneration}, not ${generation}`
  }
  if (!isValid(resource)) {
    return reason === 'Invalid' ? undefined : `it is invalid, and the status says ${describeStatus(status)}`
  }
  if (isShared(resource) && ready === 'False') {
    return reason === 'DomainConflict'
      ? undefined
      : `it has no domain, and the status says ${describeStatus(status)}`
  }
  if (ready === 'True' && enforced === '2/2') return undefined
  return `it is enforced, and the status says ${describeStatus(status)}`
}

function describeStatus(status: StoredStatus): string {
  const ready = readyCondition(status)
  return `${ready === undefined ? 'no condition' : `Ready ${ready.status} ${ready.reason}`}, enforced ${status.enforced ?? 'by none'}`
}
