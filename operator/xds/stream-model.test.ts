import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { Acknowledgements, type StreamRecord } from './acknowledgements.ts'
import { createResource, createSnapshot, type Snapshot } from './snapshot.ts'
import { createStreamState, offer, type RequestOutcome, receive, renew, type StreamState } from './stream.ts'

/**
 * Compares the state machine with a model that has no versions, hashes or sets of rejections. The model keeps
 * every response with its outcome, and derives from them what must be sent. Whatever clients answer, in
 * whatever order, both must send the same.
 */
const soak = process.env['SOAK'] === '1'
const numRuns = Number(process.env['FC_RUNS'] ?? (soak ? 100_000 : 500))

/** One name is the beginning of another, so that it matters that a rejection names the longest one. */
const names = ['a', 'a-b', 'c'] as const
const clients = ['one', 'two'] as const
type Content = ReadonlyMap<string, string>

const versionOrNone = fc.constantFrom('1', '2', '3', undefined, undefined)
const content: fc.Arbitrary<Content> = fc
  .tuple(...names.map(() => versionOrNone))
  .map(
    values =>
      new Map(names.flatMap((name, index) => (values[index] === undefined ? [] : [[name, values[index]]]))),
  )

type Action =
  | { readonly do: 'publish'; readonly content: Content }
  | {
      readonly do: 'connect'
      readonly client: string
      readonly claim: 'nothing' | 'acknowledged' | 'newest' | 'rejected'
    }
  | { readonly do: 'answer'; readonly client: string; readonly nonce: Nonce; readonly answer: Answer }
type Nonce = 'last' | 'previous' | 'next' | 'foreign' | 'empty'
/** With `names`, the answer is a rejection of these resources; with an empty list, one that names none. */
type Answer = 'ack' | 'other version' | { readonly names: readonly string[]; readonly style: number }

const client = fc.constantFrom(...clients)
const rejectionOf = fc.record({
  names: fc.subarray([...names, 'unknown'], { maxLength: 3 }),
  style: fc.nat({ max: 2 }),
})
const answerTo = (nonce: fc.Arbitrary<Nonce>): fc.Arbitrary<Action> =>
  fc.record({
    do: fc.constant('answer'),
    client,
    nonce,
    answer: fc.oneof(
      { weight: 4, arbitrary: fc.constant<Answer>('ack') },
      { weight: 4, arbitrary: rejectionOf },
      { weight: 1, arbitrary: fc.constant<Answer>('other version') },
    ),
  })
const actions: fc.Arbitrary<readonly Action[]> = fc.array(
  fc.oneof(
    { weight: 4, arbitrary: fc.record({ do: fc.constant('publish' as const), content }) },
    {
      weight: 2,
      arbitrary: fc.record({
        do: fc.constant('connect' as const),
        client,
        claim: fc.constantFrom('nothing', 'acknowledged', 'newest', 'rejected'),
      }),
    },
    { weight: 8, arbitrary: answerTo(fc.constant('last')) },
    { weight: 3, arbitrary: answerTo(fc.constantFrom('previous', 'next', 'foreign', 'empty')) },
  ),
  { minLength: 5, maxLength: 60, size: 'max' },
)

/** Returns a message with one line for each name, or with all names after other words, as `style` selects. */
function messageOf(rejection: { readonly names: readonly string[]; readonly style: number }): string {
  const lines = rejection.names.map(name => `${rejection.style === 1 ? 'error loading ' : ''}${name}: is bad`)
  if (rejection.style === 2) return ['some problems', ...lines].join('\n')
  return lines.join('\n') || 'is bad'
}

/** A response in the model: its content, and its outcome. */
interface Sent {
  readonly nonce: string
  readonly content: Content
  outcome: 'open' | 'acknowledged' | { readonly rejected: readonly string[] }
}

interface ModelClient {
  sent: Sent[]
  /** The content that the client acknowledged last on this stream; below, on any stream. */
  inForce: Content | undefined
  lastGood: Content | undefined
}

function createModel() {
  let published: Content | undefined
  /** The acknowledgements of all clients, and the publications in between. */
  const log: { readonly kind: 'acknowledged' | 'published'; readonly content: Content }[] = []
  const byName = new Map<string, ModelClient>()

  /** Returns the last two contents that any client acknowledged since the resource was last absent. */
  function goodContents(name: string): string[] {
    const found = new Set<string>()
    for (const { kind, content } of log.toReversed()) {
      const value = content.get(name)
      if (kind === 'published' && value === undefined) break
      if (kind === 'acknowledged' && value !== undefined && found.size < 2) found.add(value)
    }
    return [...found]
  }

  function isRejected({ sent }: ModelClient, name: string, value: string): boolean {
    return sent.some(
      ({ content, outcome }) =>
        typeof outcome === 'object' && outcome.rejected.includes(name) && content.get(name) === value,
    )
  }

  function wanted(of: ModelClient, newest: Content): Content {
    const entries = [...newest].map(([name, value]) => {
      const own = of.lastGood?.get(name)
      const choices = [value, ...(own === undefined ? [] : [own]), ...goodContents(name)]
      return [name, choices.find(choice => !isRejected(of, name, choice))] as const
    })
    return new Map(entries.flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])))
  }

  return {
    byName,
    published: () => published,
    wanted,
    publish(content: Content) {
      if (published && same(published, content)) return
      published = content
      log.push({ kind: 'published', content })
    },
    connect(name: string, version: string) {
      const before = byName.get(name)
      const isSame = before?.inForce !== undefined && toSnapshot(before.inForce).version === version
      const inForce = isSame ? before.inForce : undefined
      const of: ModelClient = { sent: [], inForce, lastGood: before?.lastGood }
      byName.set(name, of)
      return of
    },
    acknowledge(of: ModelClient, sent: Sent) {
      sent.outcome = 'acknowledged'
      of.inForce = sent.content
      of.lastGood = sent.content
      log.push({ kind: 'acknowledged', content: sent.content })
    },
    /** Returns the content that must be sent to the client now; undefined for none. */
    due(of: ModelClient): Content | undefined {
      if (published === undefined || of.sent.at(-1)?.outcome === 'open') return undefined
      const content = wanted(of, published)
      const acknowledged = of.sent.findLast(({ outcome }) => outcome === 'acknowledged')
      if (acknowledged && same(acknowledged.content, content)) return undefined
      const wasRejected = of.sent.some(
        sent => typeof sent.outcome === 'object' && same(sent.content, content),
      )
      return wasRejected ? undefined : content
    },
  }
}

function same(a: Content, b: Content): boolean {
  return a.size === b.size && [...a].every(([name, value]) => b.get(name) === value)
}

function toSnapshot(content: Content): Snapshot {
  return createSnapshot(
    'test',
    Array.from(content, ([name, value]) => createResource(name, Buffer.from(value))),
  )
}

function toContent(snapshot: Snapshot): Content {
  return new Map(
    Array.from(snapshot.resources.values(), ({ name, bytes }) => [name, Buffer.from(bytes).toString()]),
  )
}

/** Runs each action in the state machine and in the model, and compares what they send. */
function createComparison() {
  const model = createModel()
  const acknowledgements = new Acknowledgements({ nowMs: () => 0, monotonicMs: () => 0 })
  const streams = new Map<string, StreamState>()
  const records = new Map<string, StreamRecord>()
  const rejectedVersions = new Map<string, Set<string>>()
  let streamCount = 0
  let newest: Snapshot | undefined

  function recordOf(name: string): StreamRecord {
    const record = records.get(name)
    assert.ok(record)
    return record
  }

  /** Sends what the state machine decides, and compares it with the model. */
  function next(name: string, of: ModelClient, state: StreamState): void {
    const due = model.due(of)
    const offered = offer(state, resource => acknowledgements.lastGood(recordOf(name), resource))
    streams.set(name, offered.state)
    const content = offered.response && toContent(offered.response.snapshot)
    assert.deepEqual(content, due, `${name} is sent what the model says`)
    if (offered.response) checkSend(name, of, offered.response.nonce, offered.response.snapshot)
  }

  function ask(
    name: string,
    of: ModelClient,
    before: StreamState,
    request: Parameters<typeof receive>[1],
  ): RequestOutcome['kind'] {
    const { state, outcome } = receive(before, request)
    if (outcome.kind === 'opened') {
      const client = { uid: name, pod: name, nodeId: '', features: [], namespace: '', peer: '' }
      records.set(name, acknowledgements.opened(client, outcome.claimedVersion))
    } else if (outcome.kind === 'acknowledged') {
      acknowledgements.acknowledged(recordOf(name), outcome.snapshot)
    } else if (outcome.kind === 'rejected') {
      acknowledgements.rejected(recordOf(name), outcome.rejection)
      rejectedVersions.get(name)?.add(outcome.rejection.snapshot.version)
    }
    if (outcome.kind !== 'ignored') next(name, of, state)
    return outcome.kind
  }

  /** Checks the rules of the protocol for one sent response, independently of the model. */
  function checkSend(name: string, of: ModelClient, nonce: string, snapshot: Snapshot): void {
    assert.ok(newest, 'nothing is sent before there is something')
    assert.notEqual(of.sent.at(-1)?.outcome, 'open', 'one response is outstanding at a time')
    assert.ok(!rejectedVersions.get(name)?.has(snapshot.version), 'a rejected version is not sent again')
    for (const { sent } of model.byName.values()) {
      assert.ok(!sent.some(other => other.nonce === nonce), 'a nonce is used once')
    }
    for (const resource of snapshot.resources.keys()) assert.ok(newest.resources.has(resource))
    of.sent.push({ nonce, content: toContent(snapshot), outcome: 'open' })
  }

  function publish(content: Content): void {
    const snapshot = toSnapshot(content)
    model.publish(content)
    if (snapshot.version === newest?.version) return
    newest = snapshot
    acknowledgements.retain(snapshot)
    for (const [name, of] of model.byName) {
      const state = streams.get(name)
      if (state) next(name, of, renew(state, snapshot))
    }
  }

  function connect(name: string, claim: 'nothing' | 'acknowledged' | 'newest' | 'rejected'): void {
    const rejected = [...(rejectedVersions.get(name) ?? [])].at(-1) ?? 'rejected'
    const before = model.byName.get(name)
    const acknowledged = before?.inForce ? toSnapshot(before.inForce).version : 'unknown'
    const claims = { nothing: '', acknowledged, newest: newest?.version ?? 'unknown', rejected }
    const stale = before?.sent.at(-1)?.nonce ?? ''
    const of = model.connect(name, claims[claim])
    rejectedVersions.set(name, new Set())
    streamCount += 1
    const request = { versionInfo: claims[claim], responseNonce: stale, error: undefined }
    assert.equal(ask(name, of, createStreamState(`stream-${streamCount}`, newest), request), 'opened')
  }

  function answer(name: string, nonceKind: Nonce, how: Answer): void {
    const of = model.byName.get(name)
    const state = streams.get(name)
    const last = of?.sent.at(-1)
    if (of === undefined || state === undefined || last === undefined) return
    const responseNonce = nonceOf(nonceKind, name, of)
    const counts = responseNonce === last.nonce && last.outcome === 'open'
    if (counts) answerInModel(of, last, how)
    const versionInfo = how === 'other version' ? 'other' : toSnapshot(last.content).version
    const error = typeof how === 'object' ? messageOf(how) : undefined
    const outcome = ask(name, of, state, { versionInfo, responseNonce, error })
    assert.equal(outcome, counts ? (how === 'ack' ? 'acknowledged' : 'rejected') : 'ignored')
  }

  function answerInModel(of: ModelClient, sent: Sent, how: Answer): void {
    if (how === 'ack') model.acknowledge(of, sent)
    else if (how === 'other version') sent.outcome = { rejected: [] }
    else sent.outcome = { rejected: how.names.filter(name => sent.content.has(name)) }
  }

  function nonceOf(kind: Nonce, name: string, of: ModelClient): string {
    const last = of.sent.at(-1)?.nonce ?? ''
    const other = [...model.byName].find(([key]) => key !== name)?.[1]
    const [scope, number] = [
      last.slice(0, last.lastIndexOf('-')),
      Number(last.slice(last.lastIndexOf('-') + 1)),
    ]
    switch (kind) {
      case 'last':
        return last
      case 'previous':
        return of.sent.at(-2)?.nonce ?? 'none'
      case 'next':
        return `${scope}-${number + 1}`
      case 'foreign':
        return other?.sent.at(-1)?.nonce ?? 'none'
      case 'empty':
        return ''
    }
  }

  function act(action: Action): void {
    if (action.do === 'publish') publish(action.content)
    else if (action.do === 'connect') connect(action.client, action.claim)
    else answer(action.client, action.nonce, action.answer)
    checkEnforcement()
  }

  function checkEnforcement(): void {
    for (const resource of newest?.resources.values() ?? []) {
      const value = Buffer.from(resource.bytes).toString()
      const expected = clients.filter(name => model.byName.get(name)?.inForce?.get(resource.name) === value)
      const { acknowledged } = acknowledgements.enforcement(clients)(resource)
      assert.deepEqual([...acknowledged], expected, `clients that enforce ${resource.name}=${value}`)
    }
  }

  /**
   * Lets every client acknowledge everything from now on. In the end, each must have all contents of the
   * newest snapshot that are not withheld from it.
   */
  function settle(): void {
    for (const name of model.byName.keys()) {
      answer(name, 'last', 'ack')
      answer(name, 'last', 'ack')
      checkSettled(name)
    }
  }

  function checkSettled(name: string): void {
    const of = model.byName.get(name)
    if (of === undefined || newest === undefined) return
    assert.notEqual(of.sent.at(-1)?.outcome, 'open', 'a client that acknowledges gets no endless responses')
    const held = of.sent.some(({ outcome }) => typeof outcome === 'object' && outcome.rejected.length === 0)
    if (held) return
    for (const [resource, value] of toContent(newest)) {
      const wasRejected = of.sent.some(
        ({ content, outcome }) =>
          typeof outcome === 'object' &&
          outcome.rejected.includes(resource) &&
          content.get(resource) === value,
      )
      if (!wasRejected) assert.equal(of.inForce?.get(resource), value, `${name} has the newest ${resource}`)
    }
  }

  return { act, settle }
}

test(`the state machine sends what the model predicts, in ${numRuns} histories`, () => {
  fc.assert(
    fc.property(actions, history => {
      const comparison = createComparison()
      for (const action of history) comparison.act(action)
      comparison.settle()
    }),
    { numRuns },
  )
})
