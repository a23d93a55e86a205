/** The child process of `tollway compare --listen`, which reads the calls and sends them to the candidate. */
import { once } from 'node:events'
import { setPriority } from 'node:os'
import { createGrpcClient } from '@tollway/grpc/client/client.ts'
import { CallTap, TapMemory, type TappedCall } from '@tollway/grpc/http2/call-tap.ts'
import { Comparison } from './comparison.ts'
import { callPeer, decisionPath, formatAddress, isDecided, openPeerTls } from './peer.ts'
import { withoutHits } from './read-requests.ts'
import type { FromShadowProcess, Piece, ShadowTask, ToShadowProcess } from './shadow-feed.ts'
import { ShadowQueue } from './shadow-queue.ts'

/** The maximum bytes of the calls in progress on all connections together. */
const maxCallBytes = 64 * 1024 * 1024

// Ctrl-C in a terminal also signals this process, which must report first, and ends with its parent.
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => {})
process.once('disconnect', () => process.exit())

const [{ candidate, sharedCounters, timeoutMs, compared }] = (await once(process, 'message')) as [ShadowTask]
const comparison = new Comparison(compared)
const tls = openPeerTls(candidate, report)
const client = createGrpcClient(formatAddress(candidate), { tls })
const memory = new TapMemory(maxCallBytes)
const shadows = new ShadowQueue()
/** The tap of each connection by its number; undefined for a connection whose bytes cannot be read. */
const taps = new Map<number, CallTap | undefined>()
let calls = 0
let unreadConnections = 0
let unreadCalls = 0
let unreadBytes = 0

// The process that forwards bytes has priority on a shared core. With a priority of 5, this process still
// gets about a third of a busy core, so that its calls are not late.
setPriority(5)

function post(message: FromShadowProcess, onSent?: () => void): void {
  process.send?.(message, undefined, undefined, onSent)
}

function report(error: unknown): void {
  post({ kind: 'defect', text: `${error}` })
}

function sendToCandidate({ request, outcome, tookMs }: TappedCall): void {
  const reference = { ...outcome, tookMs }
  if (!isDecided(reference)) {
    comparison.addUndecided(reference)
    return
  }
  calls += 1
  const place = `call ${calls}`
  const run = async () => {
    const message = sharedCounters ? withoutHits(request) : request
    const found = await callPeer(client, message, { timeoutMs })
    comparison.add({ place, request, reference, candidate: found })
  }
  const drop = () => comparison.addDropped(reference)
  if (!shadows.add({ bytes: request.length, run: () => run().catch(report), drop })) drop()
}

const tapOptions = {
  path: decisionPath,
  memory,
  onCall: sendToCandidate,
  onSkipped: () => (unreadCalls += 1),
}

function abandonTap(tap: CallTap): void {
  tap.abandon()
  unreadConnections += 1
}

function readPiece({ connection, atMs, read }: Piece): void {
  if (!taps.has(connection)) taps.set(connection, new CallTap(tapOptions))
  const tap = taps.get(connection)
  if (read === 'end' || read === 'cut') {
    if (read === 'end') tap?.end(atMs)
    else if (tap !== undefined) abandonTap(tap)
    taps.delete(connection)
    return
  }
  const { direction, bytes } = read
  try {
    tap?.read(direction, Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength), atMs)
  } catch (error) {
    if (tap !== undefined) abandonTap(tap)
    taps.set(connection, undefined)
    report(error)
  }
  if (taps.get(connection) === undefined) unreadBytes += bytes.length
}

process.on('message', async (message: ToShadowProcess) => {
  if (message.kind === 'pieces') {
    for (const piece of message.pieces) readPiece(piece)
    const sizes = message.pieces.map(({ read }) => (typeof read === 'string' ? 0 : read.bytes.length))
    post({ kind: 'taken', bytes: sizes.reduce((sum, bytes) => sum + bytes, 0) })
    return
  }
  if (message.kind === 'close') await shadows.close(message.graceMs)
  const bytes = unreadBytes + message.cutBytes
  const unread = { connections: unreadConnections, bytes, calls: unreadCalls }
  const report = { ...comparison.report(), unread }
  post({ kind: 'report', report }, message.kind === 'close' ? () => process.disconnect() : undefined)
})
post({ kind: 'ready' })
