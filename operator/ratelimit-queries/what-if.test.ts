import assert from 'node:assert/strict'
import { test } from 'node:test'
import { create, type MessageInitShape } from '@bufbuild/protobuf'
import { systemClock } from '@tollway/chassis/clock.ts'
import {
  HelloSchema,
  PartAddedSchema,
  RecordedPartSchema,
  RecordingSchema,
  ReplaySchema,
} from '@tollway/proto/tollway/operator/v1/counters'
import {
  type OpenProcessSession,
  openProcessSession,
  type ProcessSessionReport,
  type ProcessSessionRequest,
} from './process-session.ts'
import { askWhatIf } from './what-if.ts'

/** How a pod answers. Without a field, it answers as a pod without recorded calls. */
interface Played {
  readonly features?: readonly string[]
  readonly backend?: string
  readonly recording?: MessageInitShape<typeof RecordingSchema>
  readonly replay?: MessageInitShape<typeof ReplaySchema>
  readonly added?: MessageInitShape<typeof PartAddedSchema>
  /** The number of parts of the recording. */
  readonly parts?: number
  /** The request that the pod does not answer; below, the request at which the session ends. */
  readonly silentAt?: ProcessSessionRequest['case']
  readonly endsAt?: ProcessSessionRequest['case']
}

const second = 1_000
const timing = { deadlineMs: 5_000, partMs: 1_000, progressMs: 5 }

/**
 * Runs a what-if with these pods. Resolves with the result and the requests of each pod; rejects as the
 * what-if does.
 */
async function askPods(...pods: readonly Played[]) {
  const asked = pods.map((): ProcessSessionRequest[] => [])
  const sessions = pods.map((pod, index) => {
    const { features = ['replay', 'merge'], backend = 'redis' } = pod
    const hello = create(HelloSchema, {
      ...{ uid: `${index}`, pod: `pod-${index}`, features: [...features], backend },
    })
    let left = 0
    const session: OpenProcessSession = openProcessSession(
      hello,
      request => {
        asked[index]?.push(request)
        if (request.case === pod.endsAt) setImmediate(() => session.close())
        if (request.case === pod.silentAt || request.case === pod.endsAt) return
        if (request.case === 'readPart') left = request.value.restart ? (pod.parts ?? 1) - 1 : left - 1
        const report = answerOf(request, pod, left === 0)
        if (report !== undefined) setImmediate(() => session.receive(report))
      },
      systemClock,
    )
    return session
  })
  const query = { domain: 'shop', resource: new Uint8Array() }
  for await (const step of askWhatIf(sessions, [], query, new AbortController().signal, timing)) {
    if (step.kind === 'result') return { ...step.result, asked }
  }
  return assert.fail('there is no result')
}

function answerOf(
  { case: kind, value }: ProcessSessionRequest,
  pod: Played,
  last: boolean,
): ProcessSessionReport | undefined {
  if (kind === 'openRecording') {
    const opened = {
      calls: 3n,
      records: 3n,
      maxRecords: 100n,
      fromMs: BigInt(second),
      whole: true,
      resolutionMs: 1,
    }
    const { id } = value as { id: bigint }
    return { case: 'recording', value: create(RecordingSchema, { ...opened, ...pod.recording, id }) }
  }
  if (typeof value === 'bigint' || value === undefined) return undefined
  const id = BigInt((value as { id?: bigint }).id ?? 0)
  if (kind === 'readPart') return { case: 'part', value: create(RecordedPartSchema, { id, last }) }
  if (kind === 'addPart') return { case: 'added', value: create(PartAddedSchema, { ...pod.added, id }) }
  if (kind !== 'whatIf') return undefined
  const replayed = { share: 1, recordedCalls: 6n, firstMs: BigInt(second) }
  return { case: 'replay', value: create(ReplaySchema, { ...replayed, ...pod.replay, id, done: true }) }
}

const casesOf = (requests: readonly ProcessSessionRequest[] | undefined) =>
  requests?.map(request => request.case)

test('the pod with the most calls replays those of all, and every recording is closed', async () => {
  const { coverage, asked } = await askPods({ parts: 2 }, { recording: { records: 4n } })
  assert.deepEqual(casesOf(asked[0]), ['openRecording', 'readPart', 'readPart', 'cancelWhatIf'])
  assert.deepEqual(casesOf(asked[1]), ['openRecording', 'addPart', 'addPart', 'whatIf', 'cancelWhatIf'])
  assert.deepEqual([coverage.recordedCalls, coverage.calls, coverage.pods, coverage.missing], [6, 6, 2, []])
})

test('pods that count in their own memory replay their own calls', async () => {
  const rule = { rule: 'r', allowed: 1n, refused: 2n, refusedAtLeast: 2n, refusedAtMost: 3n }
  const alone = { backend: 'memory', replay: { now: [rule], recordedCalls: 3n } }
  const { now, asked } = await askPods(alone, alone)
  for (const requests of asked)
    assert.deepEqual(casesOf(requests), ['openRecording', 'whatIf', 'cancelWhatIf'])
  assert.deepEqual(now, [{ rule: 'r', allowed: 2, refused: 4, refusedAtLeast: 4, refusedAtMost: 6 }])
})

test('all pods use the keys of the smallest share, and fewer if the calls do not fit into one pod', async () => {
  for (const [records, halvings] of [
    [20n, 3],
    [800n, 7],
  ] as const) {
    const { asked } = await askPods({ recording: { records } }, { recording: { records, halvings: 3 } })
    const read = asked.flat().find(request => request.case === 'readPart' || request.case === 'addPart')
    assert.ok(read)
    assert.equal(read.value.halvings, halvings, `${records} records`)
  }
})

test('calls are counted since all pods have theirs, and pods that started later are named', async () => {
  const overwritten = { recording: { fromMs: 3_000n, whole: false, resolutionMs: 1000 } }
  const late = { recording: { fromMs: 9_000n } }
  const replay = { firstMs: 4_000n, earlierCalls: 2n }
  const { coverage, asked } = await askPods({ replay, recording: { records: 9n } }, overwritten, late)
  const whatIf = asked[0]?.find(request => request.case === 'whatIf')
  assert.ok(whatIf)
  assert.equal(whatIf.value.fromMs, 3_000n)
  const { fromMs, calls, started, resolutionMs } = coverage
  assert.deepEqual([fromMs, calls, started, resolutionMs], [4_000, 7, ['pod-2'], 1000])
})

const good: Played = { recording: { records: 9n } }

const busy: Played = { recording: { problem: 'another replay is running', busy: true } }

for (const [name, pod, replaying] of [
  ['does not open its recording', { silentAt: 'openRecording' }, good],
  ['stops in its recording', { silentAt: 'readPart' }, good],
  ['ends meanwhile', { endsAt: 'readPart' }, good],
  ['has an earlier version', { features: ['replay'] }, good],
  ['records nothing', { features: [] }, good],
  ['runs another replay', busy, good],
  ['has another salt', {}, { ...good, added: { problem: 'DECISION_KEYS_SALT is not the same' } }],
] satisfies readonly (readonly [string, Played, Played])[]) {
  test(`a pod that ${name} is missing, and the others are replayed`, async () => {
    const { coverage } = await askPods(replaying, pod)
    assert.deepEqual([coverage.pods, coverage.missing], [1, ['pod-1']])
  })
}

test('if the pod that replays ends, another one replays the calls of the rest', async () => {
  for (const endsAt of ['addPart', 'whatIf'] as const) {
    const { coverage, asked } = await askPods({ ...good, endsAt }, { recording: { records: 5n } }, {})
    assert.deepEqual([coverage.pods, coverage.missing], [2, ['pod-0']], endsAt)
    assert.ok(casesOf(asked[1])?.includes('whatIf'))
  }
})

test('a what-if that no pod replays is an error with the code of its cause', async () => {
  await assert.rejects(askPods(busy), { code: 'too-many', message: 'another replay is running' })
  await assert.rejects(askPods(), { code: 'no-pods' })
  await assert.rejects(askPods({ features: ['replay'] }), { code: 'not-supported' })
  await assert.rejects(askPods({ features: ['tap'] }), { code: 'switched-off' })
  const broken = 'read the configuration: incorrect header check'
  await assert.rejects(askPods({ replay: { problem: broken } }), { code: 'not-supported', message: broken })
})

test('an invalid configuration is an error of the resource', async () => {
  const invalid = { problem: 'shop: domain: is wrong', invalid: true }
  await assert.rejects(askPods({ ...good, replay: invalid }, {}), { code: 'invalid', field: 'resource' })
})
