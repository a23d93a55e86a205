/** The thread of `tollway compare --listen`: it reads the calls, and sends them to the candidate. */
import { parentPort, workerData } from 'node:worker_threads'
import { createGrpcClient } from '@tollway/grpc/client/client.ts'
import { CallTap, type TappedCall } from '@tollway/grpc/http2/call-tap.ts'
import { askPeer, decisionPath, isDecided } from './ask-peer.ts'
import { Comparison } from './comparison.ts'
import { withoutHits } from './read-requests.ts'
import type { FromShadowThread, Piece, ShadowTask, ToShadowThread } from './shadow-messages.ts'
import { ShadowQueue } from './shadow-queue.ts'

const { candidate, sharedCounters, timeoutMs, compared } = workerData as ShadowTask
const comparison = new Comparison(compared)
const client = createGrpcClient(candidate)
const shadows = new ShadowQueue()
/** Undefined for a connection whose bytes cannot be read. */
const taps = new Map<number, CallTap | undefined>()
let calls = 0
let unreadConnections = 0
let unreadBytes = 0

const post = (message: FromShadowThread) => parentPort?.postMessage(message)
const report = (error: unknown) => post({ kind: 'defect', text: `${error}` })

function shadow({ request, outcome, tookMs }: TappedCall): void {
  const reference = { ...outcome, tookMs }
  if (!isDecided(reference)) {
    comparison.addUndecided(reference)
    return
  }
  calls += 1
  const place = `call ${calls}`
  const run = async () => {
    const message = sharedCounters ? withoutHits(request) : request
    const found = await askPeer(client, message, { timeoutMs })
    comparison.add({ place, request, reference, candidate: found })
  }
  const drop = () => comparison.addDropped(reference)
  if (!shadows.add({ bytes: request.length, run: () => run().catch(report), drop })) drop()
}

function take({ connection, atMs, read }: Piece): void {
  if (!taps.has(connection)) taps.set(connection, new CallTap(decisionPath, shadow))
  const tap = taps.get(connection)
  if (read === 'end' || read === 'cut') {
    if (read === 'end') tap?.end(atMs)
    else if (tap !== undefined) unreadConnections += 1
    taps.delete(connection)
    return
  }
  const { direction, bytes } = read
  try {
    tap?.read(direction, Buffer.from(bytes.buffer), atMs)
  } catch (error) {
    taps.set(connection, undefined)
    unreadConnections += 1
    report(error)
  }
  if (taps.get(connection) === undefined) unreadBytes += bytes.length
}

parentPort?.on('message', async (message: ToShadowThread) => {
  if (message.kind === 'pieces') {
    for (const piece of message.pieces) take(piece)
    const sizes = message.pieces.map(({ read }) => (typeof read === 'string' ? 0 : read.bytes.length))
    post({ kind: 'taken', bytes: sizes.reduce((sum, bytes) => sum + bytes, 0) })
    return
  }
  if (message.kind === 'close') await shadows.close(message.graceMs)
  const unread = { connections: unreadConnections, bytes: unreadBytes + message.cutBytes }
  post({ kind: 'report', report: { ...comparison.report(), unread } })
  if (message.kind === 'close') {
    client.close()
    parentPort?.close()
  }
})
post({ kind: 'ready' })
