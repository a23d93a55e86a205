import { createHash } from 'node:crypto'
import { connect, type Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { createGrpcClient } from '@tollway/grpc/client/client.ts'
import fc from 'fast-check'
import { animationServices } from '../../services/broker/servers/grpc-methods.ts'
import { openAnimationClient } from '../../services/broker/servers/testing/animation-client.ts'
import { encodeText } from '../../services/broker/streams/testing/simulation-under-test.ts'
import { encodeAnimationIds } from '../../services/broker/wire/testing/encode-messages.ts'
import { frameBytes, frameTypes, preface } from '../../services/grpc/http2/frames/frames.ts'
import { frameStep, toFrame } from '../../services/grpc/http2/testing/frame-steps.ts'
import { percentile } from '../bench/percentiles.ts'
import { rssMiB } from '../bench/process-usage.ts'
import { startBackendProxy } from '../support/backend-proxy.ts'
import { type BrokerProcess, startBroker } from '../support/broker-process.ts'
import { waitFor } from '../support/wait-for.ts'
import { findLoss, openResumingClient } from './resuming-client.ts'
import { startRouteServer } from './routes.ts'
import { atMost, type FaultRun, type StreamFault, type StreamFaultReport } from './stream-fault.ts'

export const callerFaults: readonly StreamFault[] = [
  { name: 'half-open', title: 'connections that send nothing', needs: [], run: runHalfOpen },
  { name: 'fuzz', title: 'mutated frames and messages', needs: [], run: runFuzz },
  { name: 'joins', title: 'many consumers join a running request at once', needs: [], run: runJoins },
  { name: 'tenants', title: 'callers with the token of another tenant', needs: [], run: runTenants },
]

const parsePort = ({ address }: BrokerProcess) => Number(address.split(':')[1])

function openSocket(t: FaultRun['t'], port: number): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1' }).on('error', () => {})
  t.after(async () => void socket.destroy())
  return new Promise(resolve =>
    socket.once('connect', () => resolve(socket)).once('close', () => resolve(socket)),
  )
}

async function runHalfOpen({ t, isLong, seed }: FaultRun): Promise<StreamFaultReport> {
  const sockets = isLong ? 10_000 : 300
  const rounds = isLong ? 50 : 5
  const broker = await startBroker(t, {})
  const rssBefore = rssMiB(broker.program.pid)
  for (let opened = 0; opened < sockets; opened += 100) {
    const batch = await Promise.all(Array.from({ length: 100 }, () => openSocket(t, parsePort(broker))))
    for (const socket of batch) socket.write(preface.subarray(0, 10))
  }
  const times: number[] = []
  const violations: string[] = []
  for (let round = 0; round < rounds; round += 1) {
    const began = performance.now()
    const ends = openResumingClient(t, [broker.address])
    const consumed = ends.consume(`half-open-${round}`)
    await ends.produce(`half-open-${round}`, 1, 0)
    violations.push(...[findLoss(await consumed, 1) ?? []].flat())
    times.push(performance.now() - began)
  }
  const goals = [
    atMost(1_000, 'ms', 'p99 of a request over new connections', percentile(times, 0.99)),
    atMost(200, 'MiB', 'growth of the memory', rssMiB(broker.program.pid) - rssBefore),
  ]
  if (isLong) goals.push(atMost(30, 's', 'a silent peer is noticed', await measureSilence(t, broker, seed)))
  return { size: `${sockets} connections`, goals, violations }
}

/** The network of a consumer disappears: returns the seconds until the broker ends its call. */
async function measureSilence(t: FaultRun['t'], broker: BrokerProcess, seed: number): Promise<number> {
  const proxy = await startBackendProxy({ targetPort: parsePort(broker), seed })
  t.after(() => proxy.stop())
  const pull = openAnimationClient(t, proxy.address).pull({ requestId: 'silent' })
  void pull.end
  const consumers = async () => {
    const stats = await (await fetch(`${broker.debug}/stats`)).text()
    return Number(/consumers\.active: (\d+)/.exec(stats)?.[1])
  }
  await waitFor('the consumer', async () => (await consumers()) === 1)
  await proxy.setFault({ kind: 'silence' })
  const began = performance.now()
  await waitFor('the end of the consumer', async () => (await consumers()) === 0, 60_000)
  return (performance.now() - began) / 1000
}

const framesOfConnection = 50

async function runFuzz({ t, isLong, seed }: FaultRun): Promise<StreamFaultReport> {
  const connections = isLong ? 4_000 : 30
  const pushes = isLong ? 20_000 : 200
  const broker = await startBroker(t, {})
  const healthy = openResumingClient(t, [broker.address])
  const count = isLong ? 3_000 : 50
  const consumed = healthy.consume('healthy')
  const produced = openResumingClient(t, [broker.address]).produce('healthy', count, 10)
  const paths = ['Push', 'Pull'].map(kind => `/${animationServices.specified}/${kind}AnimationDataStream`)
  await sendFrames(broker, paths, { connections: Math.ceil(connections / 10), seed })
  await sendMessages(t, broker, Math.ceil(pushes / 10), seed)
  const rssBefore = rssMiB(broker.program.pid)
  await sendFrames(broker, paths, { connections, seed: seed + 1 })
  await sendMessages(t, broker, pushes, seed + 1)
  const { answer } = await produced
  const loss = findLoss(await consumed, count)
  const isAlive = broker.program.process.exitCode === null && broker.program.process.signalCode === null
  return {
    size: `${connections * framesOfConnection} frames, ${pushes} messages`,
    goals: [atMost(64, 'MiB', 'growth of the memory', rssMiB(broker.program.pid) - rssBefore)],
    violations: [
      ...(isAlive ? [] : [`the broker ended: ${broker.program.output()}`]),
      ...(answer.startsWith('SUCCESS') ? [] : [`the healthy producer got ${answer}`]),
      ...(loss === undefined ? [] : [`the healthy consumer ${loss}`]),
      ...(/handle call failed/.test(broker.program.output()) ? [broker.program.output().slice(0, 500)] : []),
    ],
  }
}

async function sendFrames(
  broker: BrokerProcess,
  paths: readonly string[],
  { connections, seed }: { readonly connections: number; readonly seed: number },
): Promise<void> {
  const settings = frameBytes(frameTypes.SETTINGS, 0, 0, Buffer.alloc(0))
  const batch = 20
  for (let sent = 0; sent < connections; sent += batch) {
    const steps = fc.sample(frameStep(paths), { seed: seed + sent, numRuns: batch * framesOfConnection })
    const sockets = Array.from({ length: batch }, (_, index) => {
      const socket = connect({ port: parsePort(broker), host: '127.0.0.1' }).on('error', () => {})
      let newestId = -1
      const frames = steps.slice(index * framesOfConnection, (index + 1) * framesOfConnection).map(step => {
        const made = toFrame(step, newestId)
        newestId = made.newestId
        return made.bytes
      })
      socket.resume().write(Buffer.concat([preface, settings, ...frames]))
      // The broker may close the connection before it has read all.
      const closed = new Promise(resolve => socket.once('close', resolve))
      return { socket, closed }
    })
    await pause(5)
    for (const { socket } of sockets) socket.end().setTimeout(1_000, () => socket.destroy())
    await Promise.all(sockets.map(({ closed }) => closed))
  }
}

/** Each message begins a push, or is the second one, with some bytes changed. */
async function sendMessages(
  t: FaultRun['t'],
  broker: BrokerProcess,
  pushes: number,
  seed: number,
): Promise<void> {
  const client = openAnimationClient(t, broker.address)
  const change = fc.array(fc.record({ at: fc.nat(100), byte: fc.nat(255) }), { maxLength: 5 })
  const changes = fc.sample(change, { seed, numRuns: pushes })
  const batch = 50
  for (let sent = 0; sent < pushes; sent += batch) {
    const answers = changes.slice(sent, sent + batch).map((edits, index) => {
      const isHeader = index % 2 === 0
      const valid = isHeader ? encodeText('header', `fuzz-${sent}-${index}`) : encodeText('7')
      const bytes = Buffer.from(valid)
      for (const { at, byte } of edits) if (at < bytes.length) bytes.writeUInt8(byte, at)
      const push = client.push()
      if (!isHeader) push.write(encodeText('header', `fuzz-${seed}-${sent}-${index}`))
      push.write(bytes)
      push.end()
      return push.answer
    })
    await Promise.all(answers)
  }
}

async function runJoins({ t, isLong }: FaultRun): Promise<StreamFaultReport> {
  const consumers = isLong ? 10_000 : 300
  const half = 20
  const routes = await startRouteServer(t)
  routes.publish([{ name: 'faults/all', lateJoiners: 'start', limits: { consumers: 20_000 } }])
  const broker = await startBroker(t, { ...routes.settings, MAX_PULLS: '20000' })
  const push = openAnimationClient(t, broker.address).push()
  push.write(encodeText('header', 'joins'))
  for (let number = 1; number <= half; number += 1) push.write(encodeText(`${number}`))
  await push.headers
  const clients = Array.from({ length: 20 }, () => createGrpcClient(broker.address))
  t.after(async () => {
    for (const client of clients) client.close()
  })
  const codec = { encode: (bytes: Uint8Array) => bytes, decode: (bytes: Uint8Array) => bytes }
  const ids = encodeAnimationIds({ streamId: '', requestId: 'joins', targetObjectId: '' })
  const began = performance.now()
  const firsts: number[] = []
  const hashes = Array.from({ length: consumers }, async (_, index) => {
    const path = `/${animationServices.specified}/PullAnimationDataStream`
    const call = clients[index % clients.length]?.bidi(path, codec, {})
    if (call === undefined) throw new Error('there is no client')
    void call.write(ids)
    call.end()
    const hash = createHash('sha256')
    let messages = 0
    for await (const bytes of call.messages) {
      if (messages === 0) firsts.push(performance.now() - began)
      messages += 1
      hash.update(bytes)
    }
    return `${messages} ${hash.digest('hex')}`
  })
  await waitFor('a message at every consumer', () => firsts.length === consumers, 60_000)
  for (let number = half + 1; number <= 2 * half; number += 1) push.write(encodeText(`${number}`))
  push.write(encodeText('SUCCESS'))
  push.end()
  const different = new Set(await Promise.all(hashes))
  return {
    size: `${consumers} consumers, 20 connections`,
    goals: [atMost(5_000, 'ms', 'the last consumer has its first message', Math.max(...firsts))],
    violations: different.size === 1 ? [] : [`consumers got ${different.size} different streams`],
  }
}

const sha256 = (token: string) => createHash('sha256').update(token).digest()

async function runTenants({ t, isLong }: FaultRun): Promise<StreamFaultReport> {
  const attempts = isLong ? 2_000 : 50
  const routes = await startRouteServer(t)
  const route = (token: string, slowConsumers: string) => ({
    ...{ name: 'faults/a', slowConsumers, match: { streamIdPrefix: 's' } },
    ...{ tokenHashes: [sha256(token)] },
  })
  routes.publish([route('of-a', 'wait')])
  const { address } = await startBroker(t, routes.settings)
  const headersOfA = { authorization: 'Bearer of-a' }
  const owner = openAnimationClient(t, address)
  const pull = owner.pull({ requestId: 'a' }, headersOfA)
  const push = owner.push(headersOfA)
  push.write(encodeText('header', 'a'))
  await pull.until('header a')
  const violations: string[] = []
  const thief = openAnimationClient(t, address)
  const pulls = []
  for (let attempt = 0; attempt < attempts; attempt += 1) {
    const metadata = attempt % 2 === 0 ? { authorization: 'Bearer of-b' } : {}
    const stolen = thief.push(metadata)
    stolen.write(encodeText('header', `stolen-${attempt}`))
    const answer = await stolen.answer
    if (!/^(UNAUTHENTICATED|PERMISSION_DENIED)/.test(answer)) violations.push(`a push got ${answer}`)
    pulls.push(thief.pull({ streamId: 's' }, metadata))
  }
  const count = 100
  for (let number = 1; number <= count; number += 1) {
    push.write(encodeText(`${number}`))
    // The route changes while messages flow.
    if (number === count / 2) routes.publish([route('of-a', 'drop-oldest')])
    await pause(2)
  }
  await pull.until(`${count}`)
  const numbers = pull.texts().filter(text => /^\d+$/.test(text)).length
  if (numbers !== count) violations.push(`the owner got ${numbers} of ${count} messages`)
  const stolen = pulls.reduce((total, { messages }) => total + messages.length, 0)
  if (stolen > 0) violations.push(`${stolen} messages came to others`)
  const began = performance.now()
  routes.publish([route('next-of-a', 'drop-oldest')])
  const end = await pull.end
  if (!end.startsWith('PERMISSION_DENIED')) violations.push(`the pull with an old token got ${end}`)
  return {
    size: `${attempts} pushes and ${attempts} pulls with a foreign token or none`,
    goals: [atMost(5, 's', 'a pull ends after its token was taken away', (performance.now() - began) / 1000)],
    violations: violations.slice(0, 3),
  }
}
