import { silentLog } from '@tollway/chassis/log/log.ts'
import type { AnyMethod, Call } from '@tollway/grpc/server.ts'
import type { DiscoveryRequest } from '@tollway/proto/envoy/service/discovery/v3/discovery'
import { rateLimitConfigs } from '../../../operator/kinds/rate-limit-config/rate-limit-config.ts'
import { Feed } from '../../../operator/xds/feed.ts'
import { createSnapshot, type Resource, type Snapshot } from '../../../operator/xds/snapshot.ts'
import type { Response } from '../../../operator/xds/stream.ts'
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
import type { ScenarioEvent, World } from '../engine/world.ts'
import { feedDefects } from './feed-defects.ts'
import {
  describeActive,
  type PodKind,
  type PodParts,
  podParts,
  type RateLimitPod,
  runRateLimitPod,
} from './rate-limit-pod.ts'

/** The content of a resource: the edit that wrote it, and the feature that it needs. */
interface Content {
  readonly edit: number
  readonly form: Form
}

type Form = 'plain' | 'algorithms' | 'match'

/** The resources by name, each of which configures the domain of its name. */
export type Contents = ReadonlyMap<string, Content>

type FeedEvent =
  | FaultEvent
  | (ScenarioEvent &
      (
        | {
            readonly kind: 'edit'
            readonly edit: number
            /** The new forms by resource; undefined deletes the resource. */
            readonly forms: readonly (readonly [string, Form | undefined])[]
          }
        | { readonly kind: 'kill pod'; readonly name: string; readonly downMs: number }
        | { readonly kind: 'lose operator'; readonly name: string }
        | { readonly kind: 'replace operator'; readonly name: string; readonly syncMs: number }
      ))

/** The parts of the feed that a defect may replace. */
export interface FeedParts extends PodParts {
  /** Creates the feed of an operator. */
  openFeed(options: ConstructorParameters<typeof Feed>[0]): Feed
  /** Called by an operator with the resources when it has read them. */
  publish(feed: Pick<Feed, 'publish'>, resources: readonly Resource[]): void
  /** Called when an operator starts, before it has read the resources. */
  onStart(feed: Pick<Feed, 'publish'>): void
  /** Returns the methods that an operator serves. */
  serve(methods: readonly AnyMethod[], feed: Feed): readonly AnyMethod[]
}

const typeUrl = rateLimitConfigs().typeUrl
const operators = ['operator-1', 'operator-2'] as const
const podKinds: readonly [PodKind, ...PodKind[]] = [
  { name: 'pod-1' },
  { name: 'pod-2', rejects: 'algorithms' },
  { name: 'pod-3', lacks: 'match' },
]
const podNames = podKinds.map(({ name }) => name) as [string, ...string[]]
/** The first resource is always there and every pod accepts it, so that no snapshot may be empty. */
const [firstName, ...otherNames] = ['d1', 'd2', 'd3', 'd4'] as const
const scenarioMs = 30_000

export const feedWorld: World<FeedEvent, FeedParts> = {
  name: 'feed',
  summary: 'two operators and three rate limit pods: the real feed, its client and the configuration of pods',
  parts: {
    ...podParts,
    openFeed: options => new Feed(options),
    publish: (feed, resources) => feed.publish(createSnapshot(typeUrl, resources)),
    onStart() {},
    serve: methods => methods,
  },
  defects: feedDefects,
  generate,
  describe,
  open: openFeedWorld,
}

function generate(random: Random): readonly FeedEvent[] {
  const choices = { kinds: { ...random.some(kinds), edit: kinds.edit }, places: someFaults(random, places) }
  return random.times(6, 50, scenarioMs).map((atMs, index) => generateEvent(random, choices, atMs, index + 1))
}

/** How often each kind of event is chosen. */
const kinds = {
  edit: 10,
  'kill pod': 2,
  'lose operator': 1,
  'replace operator': 2,
  fault: 11,
}

interface Choices {
  readonly kinds: Partial<typeof kinds>
  readonly places: Places
}

function generateEvent(random: Random, choices: Choices, atMs: number, edit: number): FeedEvent {
  const kind = random.weighted(choices.kinds)
  switch (kind) {
    case 'edit':
      return { atMs, kind, edit, forms: generateForms(random) }
    case 'kill pod':
      return { atMs, kind, name: random.pick(podNames), downMs: random.integer(300, 3_000) }
    case 'lose operator':
      return { atMs, kind, name: random.pick(operators) }
    case 'replace operator':
      return { atMs, kind, name: random.pick(operators), syncMs: random.integer(10, 4_000) }
    case 'fault':
      return generateFault(random, atMs, choices.places)
  }
}

const places = {
  names: [...operators, ...podNames] as const,
  links: operators.flatMap(operator => podNames.map(pod => [pod, operator] as const)) as [
    [string, string],
    ...[string, string][],
  ],
  weights: { pause: 2, cut: 2, reset: 3, 'slow link': 2, 'slow process': 2 },
}

/** An edit changes one resource or several at once, as an apply of a folder does. */
function generateForms(random: Random): readonly (readonly [string, Form | undefined])[] {
  const isWhole = random.chance(0.4)
  const changed = otherNames.filter(() => isWhole || random.chance(0.4))
  return [
    ...(isWhole || random.chance(0.5) ? [[firstName, 'plain'] as const] : []),
    ...changed.map(name => {
      const isDeleted = random.chance(0.15)
      return [name, isDeleted ? undefined : random.weighted({ plain: 4, algorithms: 2, match: 1 })] as const
    }),
  ]
}

function describe(event: FeedEvent): { readonly who: string; readonly what: string } {
  if (isFault(event)) return describeFault(event)
  switch (event.kind) {
    case 'edit': {
      const texts = event.forms.map(([name, form]) => (form === undefined ? `-${name}` : `${name}=${form}`))
      return { who: 'user', what: `edit ${event.edit}: ${texts.join(' ') || 'nothing'}` }
    }
    case 'kill pod':
      return { who: event.name, what: `is killed, and starts again after ${event.downMs} ms` }
    case 'lose operator':
      return { who: event.name, what: 'is killed' }
    case 'replace operator':
      return { who: event.name, what: `is replaced, and reads the resources in ${event.syncMs} ms` }
  }
}

/** Contents are encoded once, because every run has the same few. */
const encoded = new Map<string, Resource>()

function encode(name: string, { edit, form }: Content): Resource {
  const key = `${name} ${edit} ${form}`
  const known = encoded.get(key)
  if (known !== undefined) return known
  const kind = rateLimitConfigs()
  const unit = { unit: 'minute', requestsPerUnit: edit }
  const limit = form === 'algorithms' ? { ...unit, algorithm: 'TokenBucket' } : unit
  const spec = {
    domain: name,
    descriptors: [
      { key: 'user', rateLimit: limit },
      { key: 'path', ...(form === 'match' && { match: { prefix: '/' } }), rateLimit: limit },
    ],
  }
  const { apiVersion, kind: kindName } = { apiVersion: 'tollway.dev/v1alpha1', kind: kind.definition.kind }
  const translation = kind.translate(name, { apiVersion, kind: kindName, metadata: { name }, spec })
  if ('problems' in translation) throw new Error(JSON.stringify(translation.problems))
  const resource = kind.encode(translation.value)
  encoded.set(key, resource)
  return resource
}

function openFeedWorld(simulation: Simulation, parts: FeedParts) {
  const network = new Network(simulation)
  const store: Contents[] = [new Map([[firstName, { edit: 0, form: 'plain' as const }]])]
  const feeds = new Map<string, Feed>()
  const pods = new Map<string, RateLimitPod>()
  /** The contents, by their hash, that each life of a pod has enforced. */
  const enforced = new Map<string, Set<string>>()
  let isClaimChanged = false

  const newest = () => store.at(-1) as Contents
  const byHash = new Map<string, { readonly name: string; readonly content: Content }>()
  const hashOf = (name: string, content: Content) => {
    const { hash } = encode(name, content)
    byHash.set(hash, { name, content })
    return hash
  }

  function startOperator(name: string, syncMs: number): void {
    simulation.start(name, process => {
      let ids = 0
      const feed = parts.openFeed({
        typeUrls: [typeUrl],
        ids: () => `${name}.${process.life}.${++ids}`,
        clock: process.clock,
        log: silentLog,
      })
      feeds.set(name, feed)
      process.onEnd(() => feeds.delete(name))
      feed.onChange(() => {
        isClaimChanged = true
      })
      const methods = parts.serve(feed.methods, feed).map(method => watchMethod(method))
      network.serve(process, name, methods)
      parts.onStart(feed)
      followStore(process, syncMs, contents => {
        const resources = Array.from(contents, ([resource, content]) => encode(resource, content))
        parts.publish(feed, resources)
      })
    })
  }

  /** Reads the store after a time, and then each of its states, at the latest after a second. */
  function followStore(
    process: SimulatedProcess,
    syncMs: number,
    onRead: (contents: Contents) => void,
  ): void {
    let read = -1
    const ask = () => {
      network.send(process.name, 'store', () => {
        const index = store.length - 1
        const contents = newest()
        network.send('store', process.name, () => {
          process.soon(() => {
            if (index <= read) return
            read = index
            process.note(`publishes ${describeContents(contents)}`)
            onRead(contents)
          })
        })
      })
    }
    process.after(syncMs, () => {
      ask()
      setInterval(ask, 1_000)
      askers.set(process.name, ask)
      process.onEnd(() => askers.delete(process.name))
    })
  }
  const askers = new Map<string, () => void>()

  function startPod(kind: PodKind): void {
    let connections = 0
    simulation.start(kind.name, process => {
      const resolve = () => {
        connections += 1
        const running = operators.filter(name => network.serves(name))
        const choice = simulation.fraction('route', kind.name, process.life, connections)
        return running[Math.floor(choice * running.length)]
      }
      pods.set(kind.name, runRateLimitPod(process, kind, { network, parts, resolve, onLoad: checkPod }))
    })
  }

  /** Each pod enforces one state of the store as a whole, except for contents that it cannot enforce. */
  function checkPod(pod: RateLimitPod): void {
    const { name } = pod.kind
    const own = enforced.get(`${name} ${pod.life}`) ?? new Set()
    enforced.set(`${name} ${pod.life}`, own)
    const active = new Map<string, number>()
    for (const [domain, numbers] of pod.active) {
      const [edit, ...others] = new Set(numbers)
      if (edit === undefined || others.length > 0 || numbers.length !== 2) {
        simulation.fail(name, neverMixed, `${domain} has the limits ${numbers.join(', ')}`)
        return
      }
      active.set(domain, edit)
      const content = findContent(domain, edit)
      if (content) own.add(hashOf(domain, content))
    }
    if (store.some(contents => isExplained(pod.kind, active, contents))) return
    simulation.fail(name, neverMixed, `${describeActive(pod.active)} is no version of the resources`)
  }

  function findContent(name: string, edit: number): Content | undefined {
    for (const contents of store) {
      const content = contents.get(name)
      if (content?.edit === edit) return content
    }
    return undefined
  }

  function isExplained(kind: PodKind, active: ReadonlyMap<string, number>, contents: Contents): boolean {
    for (const name of active.keys()) if (!contents.has(name)) return false
    for (const [name, content] of contents) {
      const edit = active.get(name)
      if (accepts(kind, content)) {
        if (edit !== content.edit) return false
        continue
      }
      if (edit === undefined) continue
      const older = findContent(name, edit)
      if (older === undefined || !accepts(kind, older) || older.edit > content.edit) return false
    }
    return true
  }

  /** Watches the streams of an operator at its side. */
  function watchMethod(method: AnyMethod): AnyMethod {
    if (method.kind !== 'bidi') return method
    const { handle } = method
    return {
      ...method,
      handle(requests: AsyncIterable<DiscoveryRequest>, call: Call) {
        const rejected = new Set<string>()
        const sent = new Map<string, Snapshot>()
        async function* watchRequests(): AsyncGenerator<DiscoveryRequest> {
          for await (const request of requests) {
            const answered = sent.get(request.responseNonce)
            if (answered && request.errorDetail) rejected.add(answered.version)
            yield request
          }
        }
        async function* watchResponses(): AsyncGenerator<Response> {
          for await (const response of handle(watchRequests(), call) as AsyncIterable<Response>) {
            const { snapshot, nonce } = response
            sent.set(nonce, snapshot)
            if (snapshot.resources.size === 0) {
              simulation.fail(call.peer, 'an empty snapshot is never sent', 'the snapshot has no resource')
            }
            if (rejected.has(snapshot.version)) {
              const what = `${snapshot.version.slice(0, 8)} was rejected on this stream before`
              simulation.fail(call.peer, 'a rejected version is not sent again', what)
            }
            yield response
          }
        }
        return watchResponses()
      },
    }
  }

  /** What an operator claims about a pod is what that life of the pod has enforced, and not an earlier one. */
  function checkClaims(): void {
    if (!isClaimChanged) return
    isClaimChanged = false
    for (const [operator, feed] of feeds) {
      for (const { client, inForce } of feed.clientStates().get(typeUrl) ?? []) {
        for (const [name, { hash }] of inForce?.resources ?? []) {
          if (enforced.get(client.pod)?.has(hash)) continue
          const content = byHash.get(hash)?.content
          simulation.fail(
            operator,
            'a pod is said to enforce only what it enforced',
            `${client.pod}: ${name}:${content?.edit ?? hash}`,
          )
          return
        }
      }
    }
  }

  function heal(): void {
    healAll(simulation, network, places.names)
    for (const name of operators) if (simulation.find(name) === undefined) startOperator(name, 100)
    for (const kind of podKinds) if (simulation.find(kind.name) === undefined) startPod(kind)
  }

  function apply(event: FeedEvent): void {
    if (isFault(event)) {
      applyFault(simulation, network, event)
      return
    }
    switch (event.kind) {
      case 'edit': {
        const contents = new Map(newest())
        for (const [name, form] of event.forms) {
          if (form === undefined) contents.delete(name)
          else contents.set(name, { edit: event.edit, form })
        }
        store.push(contents)
        for (const [name, content] of contents) hashOf(name, content)
        for (const ask of askers.values()) ask()
        break
      }
      case 'kill pod': {
        const kind = podKinds.find(({ name }) => name === event.name)
        simulation.kill(event.name)
        simulation.after(event.downMs, () => {
          if (kind && simulation.find(event.name) === undefined) startPod(kind)
        })
        break
      }
      case 'lose operator':
        simulation.kill(event.name)
        simulation.after(3_000, () => {
          if (simulation.find(event.name) === undefined) startOperator(event.name, 500)
        })
        break
      case 'replace operator': {
        const feed = feeds.get(event.name)
        simulation.find(event.name)?.soon(() => feed?.close())
        simulation.after(20, () => startOperator(event.name, event.syncMs))
        break
      }
    }
  }

  function findUnsettled(): string | undefined {
    const contents = newest()
    const connected = new Map<string, string[]>()
    for (const [operator, feed] of feeds) {
      for (const { uid } of feed.clients()) connected.set(uid, [...(connected.get(uid) ?? []), operator])
    }
    for (const kind of podKinds) {
      const pod = pods.get(kind.name)
      const active = new Map([...(pod?.active ?? [])].map(([domain, [edit = 0]]) => [domain, edit]))
      if (pod === undefined || !isExplained(kind, active, contents)) {
        return `${kind.name} enforces ${describeActive(pod?.active ?? new Map())}, not ${describeContents(contents)}`
      }
      const [operator, ...more] = connected.get(kind.name) ?? []
      if (operator === undefined || more.length > 0) {
        return `${kind.name} has streams to ${[operator ?? 'no operator', ...more].join(' and ')}`
      }
      const wrong = findWrongReport(kind, operator, contents)
      if (wrong !== undefined) return wrong
    }
    return undefined
  }

  /** The operator knows of each pod what it enforces, and which content it rejects or lacks a feature for. */
  function findWrongReport(kind: PodKind, operator: string, contents: Contents): string | undefined {
    const enforcement = feeds.get(operator)?.enforcement(typeUrl, [kind.name])
    for (const [name, content] of contents) {
      const found = enforcement?.(encode(name, content))
      const reported = found?.acknowledged.has(kind.name)
        ? 'enforced'
        : found?.rejections.some(({ uid }) => uid === kind.name)
          ? 'rejected'
          : found?.lacking.some(({ uid }) => uid === kind.name)
            ? 'lacking'
            : 'pending'
      const expected =
        kind.rejects === content.form ? 'rejected' : kind.lacks === content.form ? 'lacking' : 'enforced'
      if (reported !== expected)
        return `${operator} reports ${name} of ${kind.name} as ${reported}, not ${expected}`
    }
    return undefined
  }

  for (const [name, content] of newest()) hashOf(name, content)
  for (const name of operators) startOperator(name, 50)
  for (const kind of podKinds) startPod(kind)
  simulation.onStep(checkClaims)
  return { apply, heal, findUnsettled, settleMs: () => 60_000 }
}

const neverMixed = 'a configuration is never mixed'

function accepts({ lacks, rejects }: PodKind, { form }: Content): boolean {
  return form !== lacks && form !== rejects
}

function describeContents(contents: Contents): string {
  return Array.from(contents, ([name, { edit, form }]) => {
    return `${name}:${edit}${form === 'plain' ? '' : ` (${form})`}`
  }).join(' ')
}
