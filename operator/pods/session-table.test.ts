import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { systemClock } from '@tollway/chassis/clock.ts'
import { silentLog } from '@tollway/chassis/log/log.ts'
import { createGrpcClient } from '@tollway/grpc/client/client.ts'
import { createGrpcServer } from '@tollway/grpc/server/create-server.ts'
import { GrpcError, statusCodes } from '@tollway/grpc/status.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { limitReading } from './session-streams.ts'
import {
  createSessionTable,
  defaultSessionLimits,
  type Hello,
  type ReceivingSession,
  type SessionKind,
} from './session-table.ts'

interface Report extends Hello {
  readonly worker: number
  readonly pad: string
}

interface PlayedSession extends ReceivingSession<Report> {
  readonly name: string
  readonly received: () => number
}

const path = '/test.Sessions/Session'

/** Processes whose reports and requests are JSON. */
const kind: SessionKind<Report, Report, string, PlayedSession> = {
  ...{ path, name: 'played process' },
  decode: bytes => JSON.parse(Buffer.from(bytes).toString()),
  encode: text => Buffer.from(text),
  readHello: first => first,
  open({ uid, worker, pod }) {
    let received = 0
    return {
      ...{ id: `${uid} ${worker}`, uid, name: pod, received: () => received, close() {} },
      receive() {
        received += 1
      },
    }
  },
}

const codec = { encode: (report: object) => Buffer.from(JSON.stringify(report)), decode: String }

async function start(t: TestContext, options: Partial<Parameters<typeof createSessionTable>[1]> = {}) {
  const table = createSessionTable(kind, { clock: systemClock, log: silentLog, ...options })
  const server = createGrpcServer({
    methods: table.methods,
    onDefect: (_, error) => assert.fail(`${error}`),
  })
  const bound = await server.listen({ host: '127.0.0.1', port: 0 })
  assert.ok('port' in bound)
  const client = createGrpcClient(`127.0.0.1:${bound.port}`)
  t.after(async () => {
    table.close()
    client.close()
    await server.drain(0)
  })

  /** Opens a stream; `code` resolves with the status at its end. */
  function open(...hellos: readonly Partial<Report>[]) {
    const call = client.bidi(path, codec)
    for (const hello of hellos)
      void call.write({ uid: 'a', pod: 'pod-a', namespace: '', worker: 0, pad: '', ...hello })
    const code = (async () => {
      try {
        for await (const _ of call.messages);
        return statusCodes.OK
      } catch (error) {
        assert.ok(error instanceof GrpcError, `${error}`)
        return error.code
      }
    })()
    return { call, code }
  }

  return { table, open }
}

test('a stream without a Hello ends in time, and another stream can open', async t => {
  const { open, table } = await start(t, { limits: { helloMs: 1_000, maxUnnamed: 2 } })
  const { DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED } = statusCodes
  const silent = await Promise.all([open(), open(), open()].map(({ code }) => code))
  assert.deepEqual(silent, [DEADLINE_EXCEEDED, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED])
  open({})
  await waitFor('the session', () => table.sessions().length === 1)
})

test('a pod has as many sessions as workers, and leaves room for those of others', async t => {
  const { open, table } = await start(t, { limits: { maxOfPod: 3 } })
  const streams = Array.from({ length: 8 }, (_, worker) => open({ worker }))
  const rejected = streams.slice(3).map(({ code }) => code)
  assert.deepEqual(await Promise.all(rejected), Array(5).fill(statusCodes.RESOURCE_EXHAUSTED))
  open({ uid: 'b' })
  await waitFor('the session of the other pod', () => table.sessions().length === 4)
  open({ worker: 1 })
  assert.equal(await streams[1]?.code, statusCodes.ABORTED)
  assert.equal(table.sessions().length, 4)
})

test('only admitted processes have a session, under the name that the operator knows', async t => {
  const admit = ({ uid }: Hello) => (uid === 'a' ? 'known-name' : undefined)
  const { open, table } = await start(t, { admit })
  assert.equal(await open({ uid: 'b' }).code, statusCodes.UNAVAILABLE)
  open({ uid: 'a', pod: 'name-of-another' })
  const [session] = await waitFor('the session', () => table.sessions().length > 0 && table.sessions())
  assert.equal(session?.name, 'known-name')
})

for (const [text, hello] of Object.entries({
  'an empty uid': { uid: '' },
  'a uid of 254 characters': { uid: 'x'.repeat(254) },
  'a name that turns the direction of text': { pod: 'pod\u{202e}a' },
  'a name with a line break': { pod: 'pod\na' },
}))
  test(`a Hello with ${text} is rejected`, async t => {
    const { open } = await start(t)
    assert.equal(await open(hello).code, statusCodes.INVALID_ARGUMENT)
  })

test('ended sessions are listed as lost up to the limit', async t => {
  const { open, table } = await start(t, { limits: { maxLost: 3 } })
  for (let index = 0; index < 6; index++) {
    const { call, code } = open({ uid: `uid-${index}` })
    call.end()
    await code
  }
  assert.deepEqual(
    table.lost().map(({ session }) => session.uid),
    ['uid-3', 'uid-4', 'uid-5'],
  )
})

test('a process that floods is read at a pace, and others are read at once', async t => {
  const pace = { reportsPerSecond: 100, bytesPerSecond: 1e6, burstSeconds: 1 }
  const { open, table } = await start(t, { limits: { pace } })
  const { call } = open({ uid: 'flood' })
  const flooding = await waitFor('the session', () => table.sessions()[0])
  const begin = performance.now()
  let written = 0
  const flood = async () => {
    // This is far more than the flow-control windows hold, so the writer has to wait until the test ends.
    for (; written < 50_000; written++) await call.write({ pad: 'x'.repeat(1_000) })
  }
  flood().catch(() => {})
  const burst = pace.reportsPerSecond * pace.burstSeconds
  await waitFor('the burst', () => flooding.received() >= burst)
  const beganMs = performance.now()
  open({ uid: 'b' }, {}, {}, {})
  const session = await waitFor('the other session', () => table.sessions()[1])
  await waitFor('its reports', () => session.received() === 3)
  t.diagnostic(`the other process was read after ${Math.round(performance.now() - beganMs)} ms`)
  await waitFor('reports after the burst', () => flooding.received() >= 1.5 * burst)
  const seconds = (performance.now() - begin) / 1_000
  const most = burst + pace.reportsPerSecond * seconds + 1
  assert.ok(flooding.received() <= most, `${flooding.received()} of ${written} reports in ${seconds} s`)
})

test('the usual pace reads what a process with all its subscriptions sends', () => {
  let nowMs = 0
  const { pace } = defaultSessionLimits
  const waitAfter = limitReading(pace, { monotonicMs: () => nowMs })
  // A process at its limit: all totals after a reload, and then 200 reports of subscriptions per second.
  assert.equal(waitAfter(8 * 1024 * 1024), 0)
  for (let second = 0; second < 60; second++) {
    for (let report = 0; report < 200; report++) assert.equal(waitAfter(20_000), 0)
    nowMs += 1_000
  }
  // The reports that a process sends at once when it runs again after a pause of a minute.
  nowMs += 60_000
  for (let report = 0; report < 1_000; report++) assert.equal(waitAfter(5_000), 0)
})
