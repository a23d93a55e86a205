import assert from 'node:assert/strict'
import { test } from 'node:test'
import { create, toBinary } from '@bufbuild/protobuf'
import { createGrpcClient } from '@tollway/grpc/client/client.ts'
import type { AnyMethod, Codec } from '@tollway/grpc/server.ts'
import {
  RecordedCallsSchema,
  SessionReportSchema,
  SessionRequestSchema,
} from '@tollway/proto/tollway/operator/v1/counters'
import fc from 'fast-check'
import { encodedCodec } from '../../operator/pods/session-table.ts'
import {
  type ProcessSessionReport,
  type ProcessSessionRequest,
  processSessionPath,
} from '../../operator/ratelimit-queries/process-session.ts'
import { startReportingOperator, startReportingProcess } from '../support/reporting-operator.ts'
import { waitFor } from '../support/wait-for.ts'

const config =
  '{domain: shop, descriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 1000000}}]}'
const fuzzedStreams = Number(process.env['FC_RUNS'] ?? 150)

const text = fc.oneof(fc.constantFrom('', 'shop', 'user', 'shop.user'), fc.string({ maxLength: 20 }))
const id = fc.bigInt({ min: 0n, max: 40n })
const whole = fc.oneof(fc.bigInt({ min: 0n, max: 9n }), fc.constantFrom(2n ** 53n, 2n ** 64n - 1n))
const number = fc.oneof(fc.double(), fc.constantFrom(-1, 0, 1, Number.NaN, Number.POSITIVE_INFINITY))
const entries = fc.array(fc.record({ key: text, value: text }), { maxLength: 4 })
const counts = fc.array(number, { maxLength: 7 })
const hits = { calls: whole, allowed: whole, refused: whole, near: whole, shadow: whole }

function oneOf<Case extends string, Value>(name: Case, value: fc.Arbitrary<Value>) {
  return value.map(made => ({ case: name, value: made }))
}

const hello = fc.record({
  ...{ uid: text, pod: text, namespace: text, features: fc.array(text, { maxLength: 3 }), backend: text },
  worker: fc.nat({ max: 3 }),
})
const totals = fc.record({
  domains: fc.array(
    fc.record({
      ...{ domain: text, rules: fc.nat(), whole: fc.boolean() },
      changed: fc.array(text, { maxLength: 5 }),
      ...{ calls: counts, allowed: counts, refused: counts, near: counts, shadow: counts },
    }),
    { maxLength: 4 },
  ),
  removedDomains: fc.array(text, { maxLength: 3 }),
  ...{ decisions: whole, p50Ms: number, p99Ms: number, intervalMs: whole, backendProblem: text },
})
const replay = fc.record({
  ...{ id, progress: number, done: fc.boolean(), problem: text, recordedCalls: whole, share: number },
  keys: fc.array(fc.record({ entries, hits: whole, refusedNow: whole }), { maxLength: 3 }),
})
const report: fc.Arbitrary<ProcessSessionReport> = fc.oneof(
  oneOf('hello', hello),
  oneOf('totals', totals),
  oneOf('series', fc.record({ id, ...hits })),
  oneOf('forgotten', fc.record({ id })),
  oneOf('counter', fc.record({ id, outcome: fc.nat({ max: 9 }), problem: text })),
  oneOf('replay', replay),
  oneOf('recording', fc.record({ id, busy: fc.boolean(), fromMs: whole, calls: whole, records: whole })),
  oneOf('part', fc.record({ id, calls: fc.uint8Array({ maxLength: 60 }), last: fc.boolean() })),
  oneOf('added', fc.record({ id, problem: text })),
) as never

const recording = fc.bigInt({ min: 0n, max: 2n })
const ofRecording = { recording, halvings: fc.nat({ max: 40 }) }
const bytes = fc.uint8Array({ maxLength: 60 })
const recordedCalls = fc
  .array(
    fc.record({
      ...{ ms: whole, count: fc.nat(), hitsAddend: whole, aheadMicros: fc.integer() },
      descriptors: fc.array(fc.record({ entries }), { maxLength: 2 }),
    }),
    { maxLength: 5 },
  )
  .map(calls => toBinary(RecordedCallsSchema, create(RecordedCallsSchema, { calls })))

const request: fc.Arbitrary<ProcessSessionRequest> = fc.oneof(
  oneOf(
    'subscribe',
    fc.record({ id, what: fc.nat({ max: 5 }), domain: text, rule: text, ttlMs: fc.nat({ max: 2 ** 31 }) }),
  ),
  oneOf('unsubscribe', fc.record({ id })),
  oneOf('counter', fc.record({ id, action: fc.nat({ max: 5 }), domain: text, entries, by: whole })),
  oneOf('forget', fc.record({ id, keys: fc.array(text, { maxLength: 5 }) })),
  oneOf(
    'whatIf',
    fc.record({ id, domain: text, resource: fc.uint8Array({ maxLength: 60 }), ...ofRecording }),
  ),
  oneOf('openRecording', fc.record({ id, domain: text, recording })),
  oneOf('readPart', fc.record({ id, restart: fc.boolean(), ...ofRecording })),
  oneOf('addPart', fc.record({ id, calls: fc.oneof(recordedCalls, bytes), ...ofRecording })),
  oneOf('cancelWhatIf', id),
) as never

/** The messages of one stream; some are cut, and some are random bytes. */
function generateFrames<Message>(message: fc.Arbitrary<Message>, encode: (message: Message) => Uint8Array) {
  const good = message.map(encode)
  const cut = fc.tuple(good, fc.nat({ max: 100 })).map(([bytes, at]) => bytes.subarray(0, at))
  const bad = fc.oneof(cut, fc.uint8Array({ maxLength: 200 }))
  return fc
    .tuple(fc.array(good, { maxLength: 30 }), fc.array(bad, { maxLength: 3 }))
    .map(([first, last]) => [...first, ...last])
}

const reports = generateFrames(report, message =>
  toBinary(SessionReportSchema, create(SessionReportSchema, { report: message as never })),
)
const encodeRequest = (message: ProcessSessionRequest) =>
  toBinary(SessionRequestSchema, create(SessionRequestSchema, { request: message as never }))
const helloFrame = toBinary(
  SessionReportSchema,
  create(SessionReportSchema, { report: { case: 'hello', value: { uid: 'fuzz', pod: 'fuzz' } } }),
)
const bare: Codec<Uint8Array, Uint8Array> = encodedCodec

test('an operator closes fuzzed streams of reports, stores nothing of them, and serves others', async t => {
  const { port, sessions, table } = await startReportingOperator(t, config)
  const client = createGrpcClient(`127.0.0.1:${port}`)
  t.after(async () => client.close())
  const watching = new AbortController()
  t.after(async () => watching.abort())
  await startReportingProcess(t, port, 'a')
  await waitFor('the domain', async () => (await sessions.domains()).items.length > 0)
  const series = sessions.series({ domain: 'shop' }, watching.signal)[Symbol.asyncIterator]()
  const points = series.next()
  for (const frames of fc.sample(reports, fuzzedStreams)) {
    const call = client.bidi(processSessionPath, bare)
    const ended = (async () => {
      for await (const _ of call.messages);
    })().catch(() => {})
    for (const frame of [helloFrame, ...frames]) await call.write(frame)
    call.end()
    await Promise.all([sessions.domains(), sessions.rules('shop'), sessions.pods()])
    await ended
  }
  await waitFor('the end of the fuzzed sessions', () => table.sessions().length === 1)
  assert.equal((await points).done, false)
  const at = { domain: 'shop', entries: [{ key: 'user', value: 'alice' }] }
  assert.deepEqual((await sessions.reset(at)).confirmed, ['a'])
})

test('a process decides while an operator sends fuzzed requests, and reports again', async t => {
  // A stream has many requests, since a process waits between two streams. It ends with random bytes.
  const streams = fc.sample(fc.uint8Array({ minLength: 1, maxLength: 200 }), 3).map(bytes => {
    return [...fc.sample(request, 10 * fuzzedStreams).map(encodeRequest), bytes]
  })
  let served = 0
  const fuzzing: AnyMethod = {
    ...{ kind: 'bidi', path: processSessionPath, ...bare },
    async *handle() {
      const frames = streams[served % streams.length] ?? []
      served += 1
      yield* frames
    },
  } as AnyMethod
  const { port } = await startReportingOperator(t, config, { methods: [fuzzing] })
  const process = await startReportingProcess(t, port, 'a', { DECISION_TAP: 'true' })
  await waitFor('the fuzzed streams', async () => {
    assert.equal(await process.ask('shop', 'user', 'alice'), 200)
    return served > streams.length
  })
  assert.equal(process.program.process.exitCode, null)
})
