import assert from 'node:assert/strict'
import { Duplex } from 'node:stream'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { systemClock } from '@tollway/chassis/clock.ts'
import { MemoryBudget } from '@tollway/chassis/memory-budget.ts'
import fc from 'fast-check'
import { CallTotals } from '../calls/call-context.ts'
import { createGrpcServer } from '../server/create-server.ts'
import { type ConnectionContext, serveConnection } from '../server/serve-connection.ts'
import { request, startRig, texts, waitFor } from '../server/testing/contract/support.ts'
import { defaultLimits } from '../server.ts'
import { statusCodes } from '../status.ts'
import { FrameReader } from './frames/frame-reader.ts'
import { defaultMaxFrameBytes, frameBytes, frameTypes, preface } from './frames/frames.ts'
import { frameStep, type Step, toFrame } from './testing/frame-steps.ts'
import { openRawClient } from './testing/raw-client.ts'

const soak = process.env['SOAK'] === '1'
const seed = Number(process.env['FC_SEED'] ?? 20_260_401)
const runs = Number(process.env['FC_RUNS'] ?? (soak ? 100_000 : 100))
/**
 * The number of frames in a run. Half of them are mutated: in the long form, with 100,000 runs, 10 million.
 */
const framesInRun = 200
/** At most this much memory growth is allowed from a tenth of the long form to its end. */
const maxGrowthBytes = 8 * 1024 * 1024
/** Zeros that complete an incomplete frame, and then are a frame that is an error for every connection. */
const zeros = Buffer.alloc(2 * defaultMaxFrameBytes)

const echo = texts.unary('/test.Test/Echo', text => text)
const echoEach = texts.bidi('/test.Test/EchoEach', requests => requests)
const steps = fc.array(frameStep([echo.path, echoEach.path, '/nobody']), {
  minLength: framesInRun,
  maxLength: framesInRun,
})

/** Opens a connection in memory: pushed bytes are read at once, and its output is parsed. */
function openConnection(context: ConnectionContext) {
  let goneAway = false
  let closed = false
  const reader = new FrameReader((type, _flags, _id, buffer, start) => {
    // A drain sends GOAWAY without an error, which is not the end.
    if (type === frameTypes.GOAWAY && buffer.readUInt32BE(start + 4) !== 0) goneAway = true
  })
  reader.read(preface)
  const socket = new Duplex({
    read() {},
    write(chunk: Buffer, _encoding, done) {
      reader.read(chunk)
      done()
    },
    final(done) {
      done()
      socket.destroy()
    },
  })
  const { connection } = serveConnection(socket, 'memory', context, () => (closed = true))
  socket.push(Buffer.concat([preface, frameBytes(frameTypes.SETTINGS, 0, 0, Buffer.alloc(0))]))
  return {
    connection,
    push(bytes: Buffer): void {
      if (!socket.destroyed) socket.push(bytes)
    },
    hasGoneAway: () => goneAway,
    /** Returns whether the connection accepts no more frames, because of an error or a completed drain. */
    hasEnded: () => socket.writableEnded,
    isClosed: () => closed,
  }
}

/** Plays the steps on consecutive connections; returns how many mutated frames were read. */
async function play(all: readonly Step[], context: ConnectionContext): Promise<number> {
  let mutated = 0
  let rest = all
  while (rest.length > 0) {
    const current = openConnection(context)
    let drained = false
    let newestId = -1
    let taken = 0
    for (const step of rest) {
      if (current.hasEnded()) break
      taken += 1
      if (step.drains) current.connection.drain()
      drained ||= step.drains
      const next = toFrame(step, newestId)
      newestId = next.newestId
      const { cut = next.bytes.length } = step
      current.push(next.bytes.subarray(0, cut))
      current.push(next.bytes.subarray(cut))
      if (step.mutations.length > 0) mutated += 1
      if (taken % 20 === 0) await turn()
    }
    current.push(zeros)
    for (let turns = 0; !current.isClosed() && turns < 1000; turns += 1) await turn()
    assert.ok(current.isClosed(), 'the connection has ended')
    assert.ok(current.hasGoneAway() || drained, 'by GOAWAY')
    rest = rest.slice(taken)
  }
  return mutated
}

/** Returns the memory in use after a garbage collection. */
function usedBytes(): number {
  setFlagsFromString('--expose-gc')
  runInNewContext('gc')()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}

test('mutated frames: each connection ends with GOAWAY, and leaves no memory behind', {
  timeout: 60_000 + runs * 100,
}, async t => {
  const totals = new CallTotals()
  const memory = new MemoryBudget()
  const context: ConnectionContext = {
    methods: new Map([echo, echoEach].map(method => [method.path, method])),
    limits: defaultLimits,
    onDefect: (path, error) => assert.fail(`${path}: ${error}`),
    totals,
    memory,
    clock: systemClock,
    random: Math.random,
    keepaliveMs: 60_000,
  }
  let mutated = 0
  let run = 0
  let bytesEarly = 0
  const property = fc.asyncProperty(steps, async all => {
    mutated += await play(all, context)
    for (let turns = 0; totals.size > 0 && turns < 1000; turns += 1) await turn()
    assert.equal(totals.size, 0, 'no call runs')
    assert.equal(memory.bytes, 0, 'no request uses memory')
    run += 1
    if (run === Math.ceil(runs / 10)) bytesEarly = usedBytes()
  })
  await fc.assert(property, { seed, numRuns: runs })
  const growthBytes = usedBytes() - bytesEarly
  t.diagnostic(`${mutated} mutated frames, the memory in use grew by ${growthBytes} bytes`)
  if (!soak) return
  assert.ok(mutated >= 95 * runs, `only ${mutated} frames were mutated`)
  assert.ok(growthBytes < maxGrowthBytes, `the memory in use grew by ${growthBytes} bytes`)
})

test('mutated frames on a socket cost at most their connection', { timeout: 60_000 }, async t => {
  const { client, port, server, defects } = await startRig(t, createGrpcServer, [echo, echoEach])
  const property = fc.asyncProperty(steps, fc.boolean(), async (all, hangsUp) => {
    const caller = await openRawClient(t, port)
    let newestId = -1
    for (const step of all) {
      const next = toFrame(step, newestId)
      newestId = next.newestId
      caller.write(next.bytes)
    }
    if (hangsUp) caller.socket.end()
    else caller.write(zeros)
    const { status, message } = await request(client, echo.path, 'others')
    assert.equal(status.code, statusCodes.OK)
    assert.equal(Buffer.from(message ?? []).toString(), 'others')
    await waitFor('a closed connection', caller.isClosed)
    assert.deepEqual(defects, [])
  })
  await fc.assert(property, { seed, numRuns: 100 })
  await waitFor('no call', () => server.activeCalls === 0)
})
