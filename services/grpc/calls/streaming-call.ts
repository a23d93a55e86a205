import { systemClock } from '@tollway/chassis/clock.ts'
import { type HeldMemory, uncountedBytes } from '@tollway/chassis/request-memory.ts'
import type { Stream, StreamListener } from '../http2/streams/stream.ts'
import { healthWatchPath } from '../server/health.ts'
import { GrpcError, statusCodes } from '../status.ts'
import { atTurnEnd } from './at-turn-end.ts'
import { type CallContext, type CallHead, type CuttableCall, noMemoryLeft } from './call-context.ts'
import { acceptEncoding, acceptFields } from './compression.ts'
import { MessageReader } from './message-reader.ts'
import { RequestTimeout } from './request-timeout.ts'
import { type CallWire, type RunningCall, runCall } from './run-call.ts'
import { responseHeaders, statusTrailers, trailersOnly, type WireStatus } from './wire-metadata.ts'

/** A call with a stream on either side, run by `runCall` over an HTTP/2 stream. */
export function beginStreamingCall(context: CallContext, head: CallHead, stream: Stream): StreamListener {
  const { method } = head
  const isWatch = method.path === healthWatchPath
  const answer = createAnswer(stream, acceptFields(head.compression))
  const intake = createIntake(context, head, stream)
  const wire: CallWire = {
    metadata: head.metadata,
    peer: context.peer,
    peerCertificate: context.peerCertificate,
    deadlineMs: head.timeoutMs === undefined ? undefined : systemClock.monotonicMs() + head.timeoutMs,
    read: intake.read,
    ...answer,
  }
  const call = runCall(method, wire, {
    maxSendBytes: context.limits.maxSendBytes,
    onDefect: context.onDefect,
    onEnd() {
      intake.drop()
      context.calls.delete(cuttable, isWatch)
      stream.release()
    },
  })
  const cuttable: CuttableCall = { cut: call.cut, place: 0 }
  context.calls.add(cuttable, isWatch)
  intake.start(call)
  return { ...intake.listener, onTaken: call.taken, onReset: call.disconnect, onTurnEnd() {} }
}

/** Passes on one message for each read. Unread messages keep their part of the window. */
function createIntake(context: CallContext, head: CallHead, stream: Stream) {
  const reader = new MessageReader(context.limits.maxReceiveBytes, head.compression)
  let call: RunningCall | undefined
  let wanted = false
  let ended = false
  let uncredited = 0
  /** The size of the only request of a method that takes one, which waits for the end of the requests. */
  let takenBytes = 0
  const takesOne = head.method.kind === 'server-stream' || head.method.kind === 'server-sink'
  let held: HeldMemory | undefined
  const timeout = new RequestTimeout(context, { cut })

  function drop(): void {
    reader.clear()
    takenBytes = 0
    held?.resize(0)
    timeout.stop()
  }

  function cut(error: GrpcError): void {
    drop()
    call?.cut(error)
  }

  /** At the end of a turn: unread bytes are copied to own memory, which is counted. */
  function keep(): void {
    if (reader.lends) reader.keep()
    count()
  }

  function count(): void {
    if (ended) takenBytes = 0
    const bytes = reader.ownBytes + takenBytes
    // A message that the handler does not want yet is no delay of the caller.
    if (wanted && !ended && bytes > uncountedBytes) timeout.start()
    else timeout.stop()
    if (bytes > uncountedBytes) held ??= context.memory.open(() => cut(noMemoryLeft()))
    held?.resize(bytes)
  }

  function deliver(): void {
    if (!call || !wanted) return
    const message = takeMessage(call)
    if (message) {
      wanted = false
      if (takesOne) takenBytes += message.length
      call.receive(message)
    } else if (ended) {
      wanted = false
      if (reader.heldBytes === 0) call.halfClose()
      else call.cut(new GrpcError('INTERNAL', 'the requests end within a message'))
    }
    credit()
  }

  function takeMessage(running: RunningCall): Uint8Array | undefined {
    try {
      return reader.take()
    } catch (error) {
      if (!(error instanceof GrpcError)) throw error
      wanted = false
      running.cut(error)
      return undefined
    }
  }

  /** A message that the handler waits for may arrive completely, however long it is. */
  function credit(): void {
    const used = wanted ? uncredited : Math.max(0, uncredited - reader.heldBytes)
    uncredited -= used
    if (used > 0) stream.credit(used)
  }

  return {
    drop,
    read(): void {
      wanted = true
      deliver()
    },
    start(running: RunningCall): void {
      call = running
      deliver()
    },
    listener: {
      onData(buffer: Buffer, start: number, end: number): void {
        uncredited += end - start
        reader.push(buffer.subarray(start, end))
        deliver()
        if (reader.lends) keepAtTurnEnd(keep)
        else count()
      },
      onEnd(): void {
        ended = true
        deliver()
        count()
      },
    },
  }
}

/**
 * A handler that keeps reading takes the messages of one chunk within the turn, without a copy; the rest is
 * copied then.
 */
const keepAtTurnEnd = atTurnEnd<() => void>(keep => keep())

function createAnswer(
  stream: Stream,
  accepted: ReturnType<typeof acceptFields>,
): Pick<
  CallWire,
  'sendHeaders' | 'sendMessage' | 'sendParts' | 'queuedBytes' | 'discardQueued' | 'sendStatus'
> {
  let headersSent = false

  function sendHeaders(block: Buffer): void {
    headersSent = true
    stream.sendHeaders(block)
  }

  function statusBlock(status: WireStatus): Buffer {
    if (headersSent) return statusTrailers(status)
    const unsupported = status.code === statusCodes.UNIMPLEMENTED
    return trailersOnly(status, unsupported ? [acceptEncoding] : [])
  }

  return {
    sendHeaders: metadata => sendHeaders(responseHeaders(metadata, accepted)),
    sendMessage(bytes) {
      if (!headersSent) sendHeaders(responseHeaders(undefined, accepted))
      stream.sendMessage(bytes)
    },
    sendParts(parts) {
      if (!headersSent) sendHeaders(responseHeaders(undefined, accepted))
      stream.sendParts(parts)
    },
    queuedBytes: () => stream.queuedBytes,
    discardQueued: () => stream.discardQueued(),
    sendStatus: status => stream.endEarly(statusBlock(status)),
  }
}
